//! What is in a picture: chosen before anything is painted or said.

use super::colour::Colour;
use super::ground::Ground;
use super::shapes::Shape;
use crate::kernels::sample::Sample;

/// Things keep this far from the edge, as a share of the picture: a centre crop of 224 out of 256 leaves them whole.
const MARGIN: f64 = 0.08;
/// Space between things.
const GAP: f64 = 0.02;

/// A picture before it is painted. Lengths are shares of its width; x goes right, y goes down.
#[derive(Debug, Clone)]
pub(super) struct Scene {
    pub ground: Ground,
    /// In 0..1: moves horizons and patterns.
    pub shift: f64,
    /// In 0..1: from dull to bright.
    pub light: f64,
    pub things: Vec<Thing>,
    /// Randomness of the captions.
    pub voice: Sample,
}

/// One to three equal objects side by side.
#[derive(Debug, Clone)]
pub(super) struct Thing {
    pub shape: Shape,
    pub colour: Colour,
    pub size: Size,
    pub count: u8,
    /// Centre of the row of objects.
    pub x: f64,
    pub y: f64,
    /// Half the height of one object.
    pub radius: f64,
    /// Cosine and sine of a slight turn.
    pub turn: (f64, f64),
    /// Whether left and right are exchanged.
    pub mirrored: bool,
    /// Added to the colour.
    pub tint: [f64; 3],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    Small,
    Medium,
    Large,
}

impl Scene {
    /// The scene of image `index` under `seed`.
    pub fn new(seed: u64, index: u32) -> Self {
        let mut sample = Sample::new(seed, &[u64::from(index), 0]);
        let ground = Ground::ALL[sample.below(Ground::ALL.len())];
        let (shift, light) = (sample.unit(), sample.unit());
        // Now and then the things that were drawn do not fit beside each other; then others are drawn.
        let things = loop {
            if let Some(things) = draw_things(ground, &mut sample) {
                break things;
            }
        };
        let voice = Sample::new(seed, &[u64::from(index), 1]);
        Self { ground, shift, light, things, voice }
    }
}

/// Two or three things that differ in shape and in colour, or nothing if they do not fit.
fn draw_things(ground: Ground, sample: &mut Sample) -> Option<Vec<Thing>> {
    let mut things: Vec<Thing> = Vec::new();
    let wanted = 2 + usize::from(sample.unit() < 0.45);
    while things.len() < wanted {
        let shape = Shape::ALL[sample.below(Shape::ALL.len())];
        let colour = Colour::ALL[sample.below(Colour::ALL.len())];
        let taken = things.iter().any(|thing| thing.shape == shape || thing.colour == colour);
        if taken || ground.hides(colour) {
            continue;
        }
        let size = [Size::Small, Size::Medium, Size::Large][sample.below(3)];
        let count = match size {
            Size::Small => [1, 1, 2, 3][sample.below(4)],
            Size::Medium => [1, 1, 1, 2][sample.below(4)],
            Size::Large => 1,
        };
        let thing = Thing {
            shape,
            colour,
            size,
            count,
            x: 0.5,
            y: 0.5,
            radius: size.radius() * between(sample, 0.93, 1.07),
            // Pythagorean triples: turns that are exact.
            turn: [(1.0, 0.0), (0.96, 0.28), (0.96, -0.28)][sample.below(3)],
            mirrored: sample.below(2) == 1,
            tint: [(); 3].map(|()| between(sample, -12.0, 12.0)),
        };
        things.push(place(thing, &things, sample)?);
    }
    Some(things)
}

/// Puts `thing` where it touches none of `others`.
fn place(mut thing: Thing, others: &[Thing], sample: &mut Sample) -> Option<Thing> {
    let (w, h) = (thing.half_width(), thing.radius);
    for _ in 0..50 {
        thing.x = between(sample, MARGIN + w, 1.0 - MARGIN - w);
        thing.y = between(sample, MARGIN + h, 1.0 - MARGIN - h);
        let free = others.iter().all(|other| {
            (thing.x - other.x).abs() > w + other.half_width() + GAP
                || (thing.y - other.y).abs() > h + other.radius + GAP
        });
        if free {
            return Some(thing);
        }
    }
    None
}

impl Thing {
    /// Distance of the centres of two objects of the row.
    pub fn step(&self) -> f64 {
        2.3 * self.radius
    }

    /// Half the width of the row of objects.
    pub fn half_width(&self) -> f64 {
        self.radius + 0.5 * self.step() * f64::from(self.count - 1)
    }
}

impl Size {
    fn radius(self) -> f64 {
        match self {
            Size::Small => 0.085,
            Size::Medium => 0.135,
            Size::Large => 0.205,
        }
    }
}

impl Colour {
    pub const ALL: [Self; 11] = [
        Self::Red,
        Self::Orange,
        Self::Yellow,
        Self::Green,
        Self::Blue,
        Self::Purple,
        Self::Pink,
        Self::Brown,
        Self::Black,
        Self::White,
        Self::Grey,
    ];

    /// Red, green and blue, of 255.
    pub fn rgb(self) -> [f64; 3] {
        match self {
            Self::Red => [208.0, 32.0, 36.0],
            Self::Orange => [242.0, 132.0, 20.0],
            Self::Yellow => [246.0, 216.0, 36.0],
            Self::Green => [34.0, 148.0, 62.0],
            Self::Blue => [32.0, 76.0, 204.0],
            Self::Purple => [122.0, 44.0, 168.0],
            Self::Pink => [244.0, 128.0, 180.0],
            Self::Brown => [118.0, 72.0, 36.0],
            Self::Black => [30.0, 30.0, 34.0],
            Self::White => [242.0, 242.0, 240.0],
            Self::Grey => [134.0, 136.0, 140.0],
        }
    }
}

fn between(sample: &mut Sample, low: f64, high: f64) -> f64 {
    low + (high - low) * sample.unit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_whole_apart_and_told_from_each_other() {
        for index in 0..500 {
            let scene = Scene::new(1, index);
            assert!((2..=3).contains(&scene.things.len()));
            for (i, a) in scene.things.iter().enumerate() {
                assert!(!scene.ground.hides(a.colour));
                assert!(a.x - a.half_width() > 0.0625 && a.x + a.half_width() < 0.9375, "{a:?}");
                assert!(a.y - a.radius > 0.0625 && a.y + a.radius < 0.9375, "{a:?}");
                for b in &scene.things[..i] {
                    assert!(a.shape != b.shape && a.colour != b.colour);
                    let apart_x = (a.x - b.x).abs() - a.half_width() - b.half_width();
                    let apart_y = (a.y - b.y).abs() - a.radius - b.radius;
                    assert!(apart_x > 0.0 || apart_y > 0.0, "{a:?} touches {b:?}");
                }
            }
        }
    }
}
