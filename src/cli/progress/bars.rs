//! Progress bars of the running stages on a terminal, in the order of the pipeline.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Redraws of the bars per second.
const REFRESH_HZ: u8 = 10;
/// Width of the names of stages before the run is known.
const NAME_WIDTH: usize = 14;
/// Maximum width of the names of stages.
const MAX_NAME_WIDTH: usize = 24;

/// Bars on a terminal. Without a terminal nothing is drawn.
pub(super) struct StageBars {
    all: MultiProgress,
    /// Stages of the run, producers before their consumers.
    order: Vec<String>,
    /// Bars with the names of their stages, from top to bottom.
    shown: Vec<(String, ProgressBar)>,
}

impl StageBars {
    pub(super) fn new(is_terminal: bool) -> Self {
        let target =
            if is_terminal { ProgressDrawTarget::stderr_with_hz(REFRESH_HZ) } else { ProgressDrawTarget::hidden() };
        Self { all: MultiProgress::with_draw_target(target), order: Vec::new(), shown: Vec::new() }
    }

    /// A handle that prints lines above the bars.
    pub(super) fn handle(&self) -> MultiProgress {
        self.all.clone()
    }

    /// Sets the order of the bars.
    pub(super) fn set_order(&mut self, stages: &[String]) {
        stages.clone_into(&mut self.order);
    }

    /// Draws the bar of a stage.
    pub(super) fn show(&mut self, stage: &str, done: u64, total: Option<u64>, text: String) {
        let bar = self.bar(stage);
        if bar.length() != total {
            bar.set_style(self.style(total.is_some()));
            match total {
                Some(total) => bar.set_length(total),
                None => bar.unset_length(),
            }
        }
        bar.set_position(done);
        bar.set_message(text);
    }

    /// Removes the bar of a stage.
    pub(super) fn remove(&mut self, stage: &str) {
        if let Some(index) = self.shown.iter().position(|(name, _)| name == stage) {
            let (_, bar) = self.shown.remove(index);
            bar.finish_and_clear();
            self.all.remove(&bar);
        }
    }

    /// Removes all bars.
    pub(super) fn clear(&mut self) {
        while let Some((stage, _)) = self.shown.first() {
            let stage = stage.clone();
            self.remove(&stage);
        }
        // Bars that cannot be removed do no harm.
        let _ = self.all.clear();
    }

    /// Bar of a stage, created at its place if it is not there.
    fn bar(&mut self, stage: &str) -> ProgressBar {
        if let Some((_, bar)) = self.shown.iter().find(|(name, _)| name == stage) {
            return bar.clone();
        }
        let index = self.place(stage);
        let new = ProgressBar::no_length().with_style(self.style(false)).with_prefix(stage.to_owned());
        let bar = self.all.insert(index, new);
        bar.enable_steady_tick(Duration::from_millis(200));
        self.shown.insert(index, (stage.to_owned(), bar.clone()));
        bar
    }

    /// Index of the bar of `stage` among those that are shown.
    fn place(&self, stage: &str) -> usize {
        let rank = |name: &str| self.order.iter().position(|known| known == name).unwrap_or(self.order.len());
        self.shown.iter().take_while(|(name, _)| rank(name) <= rank(stage)).count()
    }

    /// Style of a bar if the total is known, otherwise of a spinner of the same width.
    fn style(&self, is_total_known: bool) -> ProgressStyle {
        let names = self.order.iter().map(|name| name.chars().count());
        let width = names.max().unwrap_or(NAME_WIDTH).min(MAX_NAME_WIDTH);
        let middle = if is_total_known { "{bar:20}" } else { "{spinner:20}" };
        let template = format!("{{prefix:>{width}}} {middle} {{wide_msg}}");
        ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_keep_the_order_of_the_pipeline() {
        let mut bars = StageBars::new(false);
        bars.set_order(&["pairs", "cnn", "fit", "test"].map(str::to_owned));
        let shown = |bars: &StageBars| bars.shown.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>().join(" ");
        for stage in ["test", "pairs", "fit", "cnn", "pairs"] {
            bars.show(stage, 0, None, String::new());
        }
        assert_eq!(shown(&bars), "pairs cnn fit test");
        bars.remove("cnn");
        bars.remove("pairs");
        bars.show("cnn", 0, Some(3), String::new());
        assert_eq!(shown(&bars), "cnn fit test");
        bars.clear();
        assert_eq!(shown(&bars), "");
    }
}
