//! What a person would want to be told while a training runs.

use super::Train;
use super::position::Position;
use crate::stage::Cx;

/// Epochs in a row with a mean loss at its collapse value after which a person is told. With MAX some six are usual.
const COLLAPSED_EPOCHS: u32 = 10;

/// The norm of a gradient below which a model stands still. Adam's steps do not shrink with the gradient, but rounding and its
/// ε = 1e-8 are all that is left of it then.
const STANDSTILL: f64 = 1e-7;

/// Epochs in a row in which the validation split did worse than in the one before, after which a person is told.
const FALLEN_EPOCHS: u32 = 3;

/// Tells of a loss that is, epoch after epoch, what it would be if all scores were equal.
pub(super) fn collapse(stage: &Train, at: &mut Position, cx: &mut Cx<'_>) {
    let collapsed = at.collapsed_loss > 0.0 && (at.loss / at.collapsed_loss - 1.0).abs() < 0.01;
    at.collapsed_epochs = if collapsed { at.collapsed_epochs + 1 } else { 0 };
    let last = at.epoch + 1 == u64::from(stage.epochs);
    if at.collapsed_epochs == COLLAPSED_EPOCHS || (collapsed && last && at.collapsed_epochs < COLLAPSED_EPOCHS) {
        let epochs = match at.collapsed_epochs {
            1 => "in the last epoch".to_owned(),
            epochs => format!("for {epochs} epochs"),
        };
        cx.warn(
            format!("epoch {}", at.epoch),
            format!(
                "the loss has been {epochs} what it is when all scores are equal; with `max` that is usual at first and \
                 ends after some thousand steps, or never: `warm_up = {{ epochs = 1 }}`, more epochs, a lower \
                 `learning_rate` or a smaller `batch` may help"
            ),
        );
    }
}

/// Tells of a model that nothing moves any more.
pub(super) fn standstill(at: &Position, cx: &mut Cx<'_>) {
    if at.gradient < STANDSTILL {
        let gradient = at.gradient;
        cx.warn(
            format!("epoch {}", at.epoch),
            format!(
                "the gradient's norm was at most {gradient:.0e} in all steps: nothing moves the model any more. With the \
                 official variant of `hal` that is where all scores are below 0, which its formula does not raise; \
                 `warm_up = {{ epochs = 1 }}` leads past it"
            ),
        );
    }
}

/// Tells of a score on the validation split that falls.
pub(super) fn falling(score: f64, at: &mut Position, cx: &mut Cx<'_>) {
    at.fallen_epochs = if at.score.is_some_and(|before| score < before) { at.fallen_epochs + 1 } else { 0 };
    if at.fallen_epochs == 0 {
        at.risen_to = score;
    }
    at.score = Some(score);
    if at.fallen_epochs == FALLEN_EPOCHS {
        let best = at.best.and_then(|best| Some((best.epoch, best.score?)));
        let best = best.map_or(String::new(), |(epoch, score)| {
            format!("; the model is that of epoch {epoch}, with {score:.1}, unless a better one comes")
        });
        let from = at.risen_to;
        let message = format!(
            "the score on the validation split has fallen for {FALLEN_EPOCHS} epochs, from {from:.1} to {score:.1}{best}"
        );
        cx.warn(format!("epoch {}", at.epoch), message);
    }
}
