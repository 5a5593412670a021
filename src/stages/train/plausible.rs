//! Settings of `train` that are possible, but implausible.

use std::ops::RangeInclusive;

use super::Train;
use crate::model::setting_problems::{MARGINS, check_plausible};
use crate::stage::Problem;

/// Setting, value, plausible range and a text with the usual values.
type UsualRange = (&'static str, f64, RangeInclusive<f64>, &'static str);

impl Train {
    /// Warnings about implausible settings.
    #[expect(clippy::cast_precision_loss, reason = "compared with bounds only")]
    pub(super) fn implausible(&self) -> Vec<Problem> {
        let rate = if self.finetune.is_some() {
            (1e-8..=1e-3, "usual is 1e-5 to 1e-4 for fine-tuning with Adam")
        } else {
            (1e-7..=0.1, "usual is 1e-5 to 1e-2 with Adam")
        };
        let mut ranges: Vec<UsualRange> = vec![
            ("learning_rate", self.learning_rate, rate.0, rate.1),
            ("learning_rate_decay", self.learning_rate_decay, 0.0..=1.0, "usual is 0.1 to 1: above 1 the rate grows"),
            ("gradient_clip", self.gradient_clip, 1e-3..=f64::INFINITY, "usual is 0.5 to 10"),
            ("weight_decay", self.weight_decay, 0.0..=1.0, "usual is 0 to 0.1"),
            ("epochs", self.epochs.into(), 0.0..=1000.0, "usual is 10 to 100"),
            (
                "batch_size",
                self.batch_size as f64,
                4.0..=32_768.0,
                "usual is 32 to 4096: each pair is compared with the others of its batch",
            ),
            ("min_count", self.min_count as f64, 0.0..=100.0, "usual is 1 to 10: rarer words become `<unk>`"),
            ("checkpoints", self.checkpoints as f64, 0.0..=20.0, "usual is 2: each has the size of the model"),
        ];
        if let Some(warm_up) = self.warm_up {
            ranges.push(("warm_up.margin", warm_up.margin, MARGINS.0, MARGINS.1));
        }
        if let Some(bank) = &self.memory_bank {
            let temperatures = (0.1..=1000.0, "usual is 10 to 100");
            let margins = (-1.0..=1.0, "usual is 0 to 0.5, as scores are mostly below 1");
            ranges.extend([
                ("memory_bank.alpha", bank.weights.alpha, temperatures.0.clone(), temperatures.1),
                ("memory_bank.beta", bank.weights.beta, temperatures.0, temperatures.1),
                ("memory_bank.epsilon_positive", bank.weights.epsilon_positive, margins.0.clone(), margins.1),
                ("memory_bank.epsilon_negative", bank.weights.epsilon_negative, margins.0, margins.1),
            ]);
        }
        let own = ranges
            .into_iter()
            .filter_map(|(name, got, plausible, usual)| check_plausible(name, got, (plausible, usual)));
        let objective = self.objective().implausible();
        own.chain(objective).map(|(setting, message)| Problem::warning(setting, message)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::stage;
    use crate::stage::Stage;

    fn warnings(settings: &str) -> Vec<String> {
        let problems = stage(settings).check().into_iter().filter(super::Problem::is_warning);
        problems.map(|problem| format!("{}: {}", problem.setting, problem.message)).collect()
    }

    #[test]
    fn implausible_settings_are_warnings_with_the_usual_values() {
        assert_eq!(warnings("epochs = 30"), [""; 0]);
        assert_eq!(
            warnings("epochs = 3000\nwarm_up = { epochs = 1, margin = 2.0 }\nloss = { max = { margin = 20.0 } }"),
            [
                "epochs: got 3000; usual is 10 to 100",
                "warm_up.margin: got 2; usual is 0.05 to 0.5, as scores are mostly below 1",
                "loss.max.margin: got 20; usual is 0.05 to 0.5, as scores are mostly below 1",
            ]
        );
        let of = |settings: &str| warnings(&format!("epochs = 3\n{settings}")).join("; ");
        assert!(of("loss = { info_nce = { temperature = 20.0 } }").starts_with("loss.info_nce.temperature: got 20"));
        assert!(of("loss = { sigmoid = { temperature = 0.07 } }").contains("a divisor of 0.05 is a temperature of 20"));
        assert!(of("loss = { hal = { epsilon = 3.0 } }").contains("loss.hal.epsilon: got 3"));
        assert!(of("learning_rate_decay = 10.0").contains("above 1 the rate grows"));
    }

    /// A value that is refused is not warned about too.
    #[test]
    fn impossible_settings_are_errors_alone() {
        let problems = stage("epochs = 3\nloss = { max = { margin = -1.0 } }\nlearning_rate_decay = -2.0").check();
        let shown: Vec<_> = problems.iter().map(|problem| (problem.setting.as_str(), problem.is_warning())).collect();
        assert_eq!(shown, [("learning_rate_decay", false), ("loss.max.margin", false)]);
    }
}
