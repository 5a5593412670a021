//! Warnings while a training runs: collapse, vanished gradient, falling validation score.

use super::position::TrainingPosition;
use pairloom_spec::stages::train::Train;
use pairloom_stage::StageContext;

/// Consecutive collapsed epochs (mean loss equal to that of equal scores) before a warning. With MAX, about six are
/// usual.
const COLLAPSED_EPOCHS: u32 = 10;

/// Gradient norm below which the gradient counts as vanished. Adam's steps do not shrink with the gradient, but below
/// this norm they are dominated by rounding and its ε = 1e-8.
const VANISHED_GRADIENT: f64 = 1e-7;

/// Consecutive epochs with a lower validation score than the epoch before, before a warning.
const FALLEN_EPOCHS: u32 = 3;

/// Warns if the mean loss of consecutive epochs is that of equal scores (collapse).
pub(super) fn warn_of_collapse(stage: &Train, position: &mut TrainingPosition, cx: &mut StageContext<'_>) {
    let collapsed = position.collapsed_loss > 0.0 && (position.loss / position.collapsed_loss - 1.0).abs() < 0.01;
    position.collapsed_epochs = if collapsed { position.collapsed_epochs + 1 } else { 0 };
    let last = position.epoch + 1 == u64::from(stage.epochs);
    if position.collapsed_epochs == COLLAPSED_EPOCHS
        || (collapsed && last && position.collapsed_epochs < COLLAPSED_EPOCHS)
    {
        let epochs = match position.collapsed_epochs {
            1 => "in the last epoch".to_owned(),
            epochs => format!("for {epochs} epochs"),
        };
        cx.warn(
            format!("epoch {}", position.epoch),
            format!(
                "the loss has been that of equal scores {epochs}; with the hardest negative (`max`) this is usual at first, \
                 and ends after some thousand steps or never; with other losses the model has hardly been trained: \
                 `warm_up = {{ epochs = 1 }}`, more epochs, a lower \
                 `learning_rate` or a smaller `batch_size` may help"
            ),
        );
    }
}

/// Warns if the gradient was almost zero in all steps of the epoch.
pub(super) fn warn_of_vanished_gradient(position: &TrainingPosition, cx: &mut StageContext<'_>) {
    if position.gradient < VANISHED_GRADIENT {
        let gradient = position.gradient;
        cx.warn(
            format!("epoch {}", position.epoch),
            format!(
                "the norm of the gradient was at most {gradient:.0e} in all steps: the model no longer changes. The official \
                 variant of `hal` has no gradient where all scores are below 0; `warm_up = {{ epochs = 1 }}` \
                 avoids this"
            ),
        );
    }
}

/// Warns if the validation score fell in consecutive epochs.
pub(super) fn warn_of_falling_score(score: f64, position: &mut TrainingPosition, cx: &mut StageContext<'_>) {
    position.fallen_epochs =
        if position.score.is_some_and(|before| score < before) { position.fallen_epochs + 1 } else { 0 };
    if position.fallen_epochs == 0 {
        position.risen_to = score;
    }
    position.score = Some(score);
    if position.fallen_epochs == FALLEN_EPOCHS {
        let best = position.best.and_then(|best| Some((best.epoch, best.score?)));
        let best =
            best.map_or(String::new(), |(epoch, score)| format!("; the best epoch so far is {epoch}, with {score:.1}"));
        let from = position.risen_to;
        let message = format!(
            "the score on the validation split has fallen for {FALLEN_EPOCHS} epochs, from {from:.1} to {score:.1}{best}"
        );
        cx.warn(format!("epoch {}", position.epoch), message);
    }
}
