//! Progress bars of the running stages on a terminal, in the order of the pipeline.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Redraws of the bars per second.
const REFRESH_HZ: u8 = 10;
/// Width of the names of stages before the run is known.
const NAME_WIDTH: usize = 14;
/// Maximum width of the names of stages.
const MAX_NAME_WIDTH: usize = 24;
/// Width of a terminal below which bars are short.
const NARROW_TERMINAL: usize = 120;
/// Widths of bars, in a narrow terminal and in others.
const BAR_WIDTHS: [usize; 2] = [10, 20];
/// Width of a terminal whose size is unknown.
const UNKNOWN_TERMINAL: usize = 80;

/// Bars on a terminal. Without a terminal nothing is drawn.
pub(super) struct StageBars {
    all: MultiProgress,
    /// Stages of the run, producers before their consumers.
    order: Vec<String>,
    /// Bars with the names of their stages, from top to bottom.
    shown: Vec<(String, ProgressBar)>,
    /// Width of the terminal when a bar was last drawn.
    terminal: usize,
}

impl StageBars {
    pub(super) fn new(is_terminal: bool) -> Self {
        let target =
            if is_terminal { ProgressDrawTarget::stderr_with_hz(REFRESH_HZ) } else { ProgressDrawTarget::hidden() };
        Self { all: MultiProgress::with_draw_target(target), order: Vec::new(), shown: Vec::new(), terminal: 0 }
    }

    /// A handle that prints lines above the bars.
    pub(super) fn handle(&self) -> MultiProgress {
        self.all.clone()
    }

    /// Sets the order of the bars.
    pub(super) fn set_order(&mut self, stages: &[String]) {
        stages.clone_into(&mut self.order);
    }

    /// Characters that fit beside a bar.
    pub(super) fn text_width(&self) -> usize {
        let terminal = terminal_width();
        terminal.saturating_sub(self.name_width() + bar_width(terminal) + 2)
    }

    /// Draws the bar of a stage.
    pub(super) fn show(&mut self, stage: &str, done: u64, total: Option<u64>, text: String) {
        let bar = self.bar(stage);
        self.follow_terminal();
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

    /// Fits all bars to a terminal whose width has changed.
    fn follow_terminal(&mut self) {
        let terminal = terminal_width();
        if terminal != self.terminal {
            self.terminal = terminal;
            for (_, bar) in &self.shown {
                bar.set_style(self.style(bar.length().is_some()));
            }
        }
    }

    /// Width of the names of stages.
    fn name_width(&self) -> usize {
        let names = self.order.iter().map(|name| name.chars().count());
        names.max().unwrap_or(NAME_WIDTH).min(MAX_NAME_WIDTH)
    }

    /// Style of a bar if the total is known, otherwise of a spinner of the same width.
    fn style(&self, is_total_known: bool) -> ProgressStyle {
        let (width, bar) = (self.name_width(), bar_width(terminal_width()));
        let middle = if is_total_known { format!("{{bar:{bar}}}") } else { format!("{{spinner:{bar}}}") };
        let template = format!("{{prefix:>{width}}} {middle} {{wide_msg}}");
        ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar())
    }
}

/// Columns of the terminal of stderr.
fn terminal_width() -> usize {
    terminal_size::terminal_size_of(std::io::stderr()).map_or(UNKNOWN_TERMINAL, |(width, _)| usize::from(width.0))
}

fn bar_width(terminal: usize) -> usize {
    BAR_WIDTHS[usize::from(terminal >= NARROW_TERMINAL)]
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
