//! Activity of a running stage, as text for bars and lines, and its rate in the recent past.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::super::units::{format_bytes, format_count, format_number, format_rate, format_time_left};
use pairloom_base::runtime::Stalls;
use pairloom_stage::{TrainedStep, ValidationScores};

/// Unit of the progress of hashing.
pub(super) const BYTES: &str = "bytes";
/// Significant digits of losses and scores.
const DIGITS: usize = 4;

/// Latest known state of a running stage.
#[derive(Debug, Default)]
pub(super) struct StageActivity {
    done: u64,
    total: Option<u64>,
    unit: String,
    waiting_for: Option<String>,
    /// Rate since the first report of progress, so the set-up of a stage does not count.
    meter: Option<RateMeter>,
    step: Option<TrainedStep>,
    scores: Option<ValidationScores>,
    stalls: Option<Stalls>,
}

impl StageActivity {
    /// Activity of a stage that starts with `done` rows of an earlier run.
    pub(super) fn resumed(done: u64) -> Self {
        Self { done, unit: "rows".to_owned(), ..Self::default() }
    }

    /// Records progress.
    pub(super) fn record(
        &mut self,
        now: Instant,
        done: u64,
        total: Option<u64>,
        unit: &str,
        waiting_for: Option<&str>,
    ) {
        if self.unit != unit {
            (self.unit, self.meter) = (unit.to_owned(), None);
        }
        (self.done, self.total, self.waiting_for) = (done, total, waiting_for.map(str::to_owned));
        match &mut self.meter {
            Some(meter) => meter.record(now, done, waiting_for.is_some()),
            None => self.meter = Some(RateMeter::start(now, done, waiting_for.is_some())),
        }
    }

    /// Records a step of a training.
    pub(super) fn record_step(&mut self, step: TrainedStep) {
        self.step = Some(step);
    }

    /// Records a validation of a training.
    pub(super) fn record_validation(&mut self, scores: ValidationScores) {
        self.scores = Some(scores);
    }

    /// Records data stalls.
    pub(super) fn record_stalls(&mut self, stalls: Stalls) {
        self.stalls = Some(stalls);
    }

    /// Units done, and their total if it is known.
    pub(super) fn position(&self) -> (u64, Option<u64>) {
        (self.done, self.total)
    }

    /// Text of at most `width` characters beside a bar: `120/3,600 steps  23.3/s  2 min 30 s left  epoch 0/29, loss 12.3`.
    ///
    /// In a narrow terminal, a training shows its epoch, loss and score first, then as much of the rest as fits.
    pub(super) fn bar_text(&self, width: usize) -> String {
        let (counts, details) = (self.counts("/"), self.details());
        if counts.is_empty() {
            return cut(details.join(", "), width);
        }
        let (rate, left) = (self.rate().unwrap_or_default(), self.time_left().map(|left| format!("{left} left")));
        let left = left.unwrap_or_default();
        let aligned = format!("{counts:<20}  {rate:>10}  {left:>16}  {}", details.join(", "));
        let aligned = aligned.trim_end();
        if aligned.chars().count() <= width {
            return aligned.to_owned();
        }
        let brief = self.brief_details();
        let mut text = String::new();
        for part in brief.into_iter().chain([left, counts, rate]).chain(self.stalls.and_then(stall_text)) {
            let separator = if text.is_empty() || part.is_empty() { "" } else { ", " };
            if text.chars().count() + separator.len() + part.chars().count() <= width {
                text.push_str(separator);
                text.push_str(&part);
            }
        }
        text
    }

    /// Most important details in short: epoch, loss and score of a training, or the reason for which the stage waits.
    fn brief_details(&self) -> Vec<String> {
        let mut brief = Vec::new();
        if let Some(step) = &self.step {
            brief.push(epoch_text(step));
            brief.push(format!("loss {}", format_number(step.loss, DIGITS)));
        }
        if let Some(scores) = &self.scores {
            brief.push(format!("{} {}", scores.selection_metric, format_number(scores.selection_score, DIGITS)));
        }
        brief.extend(self.waiting_for.iter().map(|name| format!("waiting for {name}")));
        brief
    }

    /// Text of a line: `120 of 3,600 steps (3 %), 23.3/s, 2 min 30 s left, epoch 0/29, loss 12.3`.
    pub(super) fn line_text(&self) -> String {
        let share = self.total.and_then(|total| (self.done.saturating_mul(100)).checked_div(total));
        let share = share.map(|percent| format!(" ({percent} %)")).unwrap_or_default();
        let left = self.time_left().map(|left| format!("{left} left"));
        let texts = std::iter::once(self.counts(" of ") + &share).chain(self.rate()).chain(left).chain(self.details());
        texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ")
    }

    /// Counts with their unit; empty before the first progress.
    pub(super) fn counts(&self, of: &str) -> String {
        let count = |number| if self.unit == BYTES { format_bytes(number) } else { format_count(number) };
        let unit = if self.unit == BYTES { String::new() } else { format!(" {}", self.unit) };
        match self.total {
            Some(total) => format!("{}{of}{}{unit}", count(self.done), count(total)),
            None if self.done == 0 => String::new(),
            None => format!("{}{unit}", count(self.done)),
        }
    }

    fn rate(&self) -> Option<String> {
        let rate = self.meter.as_ref()?.per_second()?;
        Some(if self.unit == BYTES {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is positive and small")]
            let bytes = rate as u64;
            format!("{}/s", format_bytes(bytes))
        } else {
            format_rate(rate, &self.unit)
        })
    }

    fn time_left(&self) -> Option<String> {
        let total = self.total.filter(|total| self.done < *total)?;
        Some(format_time_left(self.meter.as_ref()?.seconds_left(total)?))
    }

    /// Training, last validation, and the reason for which the stage waits.
    fn details(&self) -> Vec<String> {
        let mut details = Vec::new();
        if let Some(step) = &self.step {
            details.push(epoch_text(step));
            details.push(format!("loss {}", format_number(step.loss, DIGITS)));
        }
        if let Some(scores) = &self.scores {
            let score = format_number(scores.selection_score, DIGITS);
            details.push(format!("{} {score} in epoch {}", scores.selection_metric, scores.epoch));
        }
        match &self.waiting_for {
            Some(name) => details.push(format!("waiting for {name}")),
            None => details.extend(self.stalls.and_then(stall_text)),
        }
        details
    }
}

/// Number of an epoch, from 0 as in all tables, and of the last one.
fn epoch_text(step: &TrainedStep) -> String {
    format!("epoch {}/{}", step.epoch, step.epochs.saturating_sub(1))
}

/// First characters of a text that is longer than `width`.
fn cut(text: String, width: usize) -> String {
    match text.char_indices().nth(width) {
        Some(_) => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        None => text,
    }
}

/// Shares of time that a training waits for storage and decoding; `None` if both are below 0.5 %.
fn stall_text(stalls: Stalls) -> Option<String> {
    let share = |seconds: f64| 100.0 * seconds / stalls.total().max(f64::MIN_POSITIVE);
    let waits = [(share(stalls.storage), "storage"), (share(stalls.decode), "decoding")];
    let waits = waits.iter().filter(|(share, _)| *share >= 0.5).map(|(share, what)| format!("{share:.0} % for {what}"));
    let waits: Vec<String> = waits.collect();
    (!waits.is_empty()).then(|| format!("waited {}", waits.join(" and ")))
}

/// Span of working time that a rate covers.
const WINDOW: Duration = Duration::from_secs(20);

/// Meter of the rate of a stage. Time that the stage waits does not count.
///
/// An interval between two reports counts as waiting if it began with a wait and nothing was done in it. A stage of
/// several threads works on while one of them waits for input.
#[derive(Debug)]
struct RateMeter {
    /// Working time and units done, at the start and after each progress.
    samples: VecDeque<(Duration, u64)>,
    worked: Duration,
    last: Instant,
    is_waiting: bool,
    done: u64,
}

impl RateMeter {
    /// A meter that starts now, with `done` units done before.
    fn start(now: Instant, done: u64, is_waiting: bool) -> Self {
        Self { samples: VecDeque::from([(Duration::ZERO, done)]), worked: Duration::ZERO, last: now, is_waiting, done }
    }

    /// Records a report of progress.
    fn record(&mut self, now: Instant, done: u64, is_waiting: bool) {
        if !self.is_waiting || done > self.done {
            self.worked += now.saturating_duration_since(self.last);
        }
        if done < self.done {
            self.samples.clear();
        }
        if done != self.done {
            self.samples.push_back((self.worked, done));
        }
        // The oldest sample that is kept lies just outside of the window.
        while self.samples.get(1).is_some_and(|(worked, _)| self.worked.saturating_sub(*worked) >= WINDOW)
            && self.samples.len() > 2
        {
            self.samples.pop_front();
        }
        (self.last, self.is_waiting, self.done) = (now, is_waiting, done);
    }

    /// Units done in a second of work; `None` before the first progress.
    #[expect(clippy::cast_precision_loss, reason = "a rate for display")]
    fn per_second(&self) -> Option<f64> {
        let ((before, from), (after, to)) = (self.samples.front()?, self.samples.back()?);
        let seconds = after.saturating_sub(*before).as_secs_f64();
        (to > from && seconds > 0.0).then(|| (to - from) as f64 / seconds)
    }

    /// Seconds of work until `total` units are done.
    #[expect(clippy::cast_precision_loss, reason = "a time for display")]
    fn seconds_left(&self, total: u64) -> Option<f64> {
        Some(total.checked_sub(self.done)? as f64 / self.per_second()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::clock;

    #[test]
    fn a_training_shows_epoch_loss_and_last_score() {
        let at = clock();
        let mut fit = StageActivity::resumed(0);
        assert_eq!(fit.line_text(), "");
        fit.record(at(0), 0, None, "rows", Some("cnn.features"));
        assert_eq!([fit.line_text(), fit.bar_text(100)], ["waiting for cnn.features"; 2]);
        assert_eq!(fit.bar_text(12), "waiting for…");
        fit.record(at(100), 0, Some(3600), "steps", None);
        fit.record(at(105), 120, Some(3600), "steps", None);
        fit.record_step(TrainedStep { epoch: 0, epochs: 30, step: 120, loss: 12.345_678 });
        // 24 steps a second, 3,480 steps are left for 145 s.
        assert_eq!(fit.line_text(), "120 of 3,600 steps (3 %), 24.0/s, 2 min 25 s left, epoch 0/29, loss 12.35");
        fit.record_validation(ValidationScores {
            epoch: 0,
            step: 120,
            loss: 14.0,
            i2t: [1.0; 3],
            t2i: [1.0; 3],
            rsum: 6.0,
            selection_metric: "rsum",
            selection_score: 231.449,
            best: true,
        });
        fit.record_stalls(Stalls { storage: 1.0, decode: 0.001, trainer: 9.0 });
        assert_eq!(
            fit.bar_text(200).split_whitespace().collect::<Vec<_>>().join(" "),
            "120/3,600 steps 24.0/s 2 min 25 s left epoch 0/29, loss 12.35, rsum 231.4 in epoch 0, waited 10 % for \
             storage"
        );
        // Beside the bar and the name of the stage, terminals of 100, 80 and 60 columns have about as much.
        for (width, text) in [
            (74, "epoch 0/29, loss 12.35, rsum 231.4, 2 min 25 s left, 120/3,600 steps"),
            (54, "epoch 0/29, loss 12.35, rsum 231.4, 2 min 25 s left"),
            (34, "epoch 0/29, loss 12.35, rsum 231.4"),
            (5, ""),
        ] {
            assert_eq!(fit.bar_text(width), text);
        }
        fit.record(at(1000), 3600, Some(3600), "steps", None);
        assert!(fit.line_text().starts_with("3,600 of 3,600 steps (100 %), "), "{}", fit.line_text());
        assert!(!fit.line_text().contains("left"), "{}", fit.line_text());
    }

    #[test]
    fn hashing_is_shown_in_bytes() {
        let at = clock();
        let mut reading = StageActivity::default();
        reading.record(at(0), 64 << 20, Some(1 << 30), BYTES, None);
        reading.record(at(2), 128 << 20, Some(1 << 30), BYTES, None);
        assert_eq!(reading.line_text(), "128.0 MiB of 1.0 GiB (12 %), 32.0 MiB/s, 28 s left");
    }

    #[test]
    fn rows_without_a_total_have_a_rate_and_no_time_left() {
        let at = clock();
        let mut pairs = StageActivity::resumed(1000);
        pairs.record(at(0), 1000, None, "rows", None);
        pairs.record(at(3), 10_000, None, "rows", None);
        assert_eq!(pairs.line_text(), "10,000 rows, 3,000/s");
    }

    fn rate(meter: &RateMeter) -> f64 {
        meter.per_second().expect("a rate")
    }

    #[test]
    fn time_before_the_input_arrives_does_not_count() {
        let at = clock();
        // Waits for 360 s, then does 10 units in 2 s: 5/s, and 80 units are left for 16 s.
        let mut meter = RateMeter::start(at(0), 0, true);
        assert_eq!(meter.per_second(), None);
        meter.record(at(360), 0, false);
        meter.record(at(361), 4, false);
        meter.record(at(362), 10, false);
        assert!((rate(&meter) - 5.0).abs() < 1e-9, "{meter:?}");
        assert_eq!(meter.seconds_left(90), Some(16.0));
        assert_eq!(meter.seconds_left(10), Some(0.0));
        assert_eq!(meter.seconds_left(3), None, "more is done than the total");
    }

    #[test]
    fn a_wait_in_the_middle_does_not_count_and_work_beside_a_wait_does() {
        let at = clock();
        let mut meter = RateMeter::start(at(0), 0, false);
        meter.record(at(1), 10, true);
        // Nothing is done between 1 s and 101 s.
        meter.record(at(101), 10, false);
        meter.record(at(102), 20, true);
        // One thread waits from 102 s on, another one finishes 10 units at 103 s.
        meter.record(at(103), 30, false);
        assert!((rate(&meter) - 10.0).abs() < 1e-9, "{meter:?}");
    }

    #[test]
    fn the_rate_is_that_of_the_recent_past() {
        let at = clock();
        let mut meter = RateMeter::start(at(0), 0, false);
        // One unit a second for 100 s, then four: after 20 s and one sample more, only these count.
        let mut done = 0;
        for second in 1..=121 {
            done += if second <= 100 { 1 } else { 4 };
            meter.record(at(second), done, false);
        }
        assert!((rate(&meter) - 4.0).abs() < 1e-9, "{meter:?}");
        // Slow steps: the last two samples are kept, however old.
        meter.record(at(221), done + 1, false);
        meter.record(at(321), done + 2, false);
        assert!((rate(&meter) - 0.01).abs() < 1e-9, "{meter:?}");
        // A stage that starts over is measured anew.
        meter.record(at(322), 0, false);
        assert_eq!(meter.per_second(), None);
    }
}
