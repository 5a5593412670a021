//! Content of an image, drawn before rendering and captioning.

use super::shapes::{Background, Colour, ObjectShape};
use pairloom_kernels::random::Rng;

/// Minimum distance of objects from the edge, as a share of the image. A centre crop of 224 out of 256 keeps them
/// whole.
const MARGIN: f64 = 0.08;
/// Minimum distance between groups of objects.
const GAP: f64 = 0.02;

/// Content of an image. Lengths are shares of its width; x goes right, y goes down.
#[derive(Debug, Clone)]
pub(super) struct Scene {
    pub background: Background,
    /// Shift of horizons and patterns of the background, in 0..1.
    pub shift: f64,
    /// Brightness of the background, in 0..1.
    pub brightness: f64,
    pub groups: Vec<ObjectGroup>,
    /// Random number generator of the captions.
    pub caption_rng: Rng,
}

/// Row of one to three equal objects.
#[derive(Debug, Clone)]
pub(super) struct ObjectGroup {
    pub shape: ObjectShape,
    pub colour: Colour,
    pub size: ObjectSize,
    pub count: u8,
    /// Centre of the row of objects.
    pub x: f64,
    pub y: f64,
    /// Half of the height of one object.
    pub radius: f64,
    /// Cosine and sine of the rotation.
    pub rotation: (f64, f64),
    /// True if left and right are exchanged.
    pub flipped: bool,
    /// Offset that is added to the colour.
    pub tint: [f64; 3],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectSize {
    Small,
    Medium,
    Large,
}

impl Scene {
    /// Draws the scene of image `index` with `seed`.
    pub fn new(seed: u64, index: u32) -> Self {
        let mut rng = Rng::new(seed, &[u64::from(index), 0]);
        let background = Background::ALL[rng.uniform_below(Background::ALL.len())];
        let (shift, brightness) = (rng.uniform(), rng.uniform());
        // If the drawn groups do not fit in the image, others are drawn.
        let groups = loop {
            if let Some(groups) = draw_groups(background, &mut rng) {
                break groups;
            }
        };
        let caption_rng = Rng::new(seed, &[u64::from(index), 1]);
        Self { background, shift, brightness, groups, caption_rng }
    }
}

/// Draws two or three groups that differ in shape and in colour. Returns `None` if they do not fit.
fn draw_groups(background: Background, rng: &mut Rng) -> Option<Vec<ObjectGroup>> {
    let mut groups: Vec<ObjectGroup> = Vec::new();
    let n_groups = 2 + usize::from(rng.uniform() < 0.45);
    while groups.len() < n_groups {
        let shape = ObjectShape::ALL[rng.uniform_below(ObjectShape::ALL.len())];
        let colour = Colour::ALL[rng.uniform_below(Colour::ALL.len())];
        let taken = groups.iter().any(|group| group.shape == shape || group.colour == colour);
        if taken || background.is_low_contrast(colour) {
            continue;
        }
        let size = [ObjectSize::Small, ObjectSize::Medium, ObjectSize::Large][rng.uniform_below(3)];
        let count = match size {
            ObjectSize::Small => [1, 1, 2, 3][rng.uniform_below(4)],
            ObjectSize::Medium => [1, 1, 1, 2][rng.uniform_below(4)],
            ObjectSize::Large => 1,
        };
        let group = ObjectGroup {
            shape,
            colour,
            size,
            count,
            x: 0.5,
            y: 0.5,
            radius: size.radius() * uniform_between(rng, 0.93, 1.07),
            // Rotations from Pythagorean triples are exact.
            rotation: [(1.0, 0.0), (0.96, 0.28), (0.96, -0.28)][rng.uniform_below(3)],
            flipped: rng.uniform_below(2) == 1,
            tint: [(); 3].map(|()| uniform_between(rng, -12.0, 12.0)),
        };
        groups.push(place_group(group, &groups, rng)?);
    }
    Some(groups)
}

/// Draws a position for `group` where it touches none of `others`. Returns `None` if none is found.
fn place_group(mut group: ObjectGroup, others: &[ObjectGroup], rng: &mut Rng) -> Option<ObjectGroup> {
    let (w, h) = (group.half_width(), group.radius);
    for _ in 0..50 {
        group.x = uniform_between(rng, MARGIN + w, 1.0 - MARGIN - w);
        group.y = uniform_between(rng, MARGIN + h, 1.0 - MARGIN - h);
        let free = others.iter().all(|other| {
            (group.x - other.x).abs() > w + other.half_width() + GAP
                || (group.y - other.y).abs() > h + other.radius + GAP
        });
        if free {
            return Some(group);
        }
    }
    None
}

impl ObjectGroup {
    /// Distance between the centres of adjacent objects of the row.
    pub fn spacing(&self) -> f64 {
        2.3 * self.radius
    }

    /// Half of the width of the row of objects.
    pub fn half_width(&self) -> f64 {
        self.radius + 0.5 * self.spacing() * f64::from(self.count - 1)
    }
}

impl ObjectSize {
    fn radius(self) -> f64 {
        match self {
            ObjectSize::Small => 0.085,
            ObjectSize::Medium => 0.135,
            ObjectSize::Large => 0.205,
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

    /// RGB values, 0 to 255.
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

fn uniform_between(rng: &mut Rng, low: f64, high: f64) -> f64 {
    low + (high - low) * rng.uniform()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_inside_the_image_apart_and_distinct() {
        for index in 0..500 {
            let scene = Scene::new(1, index);
            assert!((2..=3).contains(&scene.groups.len()));
            for (i, a) in scene.groups.iter().enumerate() {
                assert!(!scene.background.is_low_contrast(a.colour));
                assert!(a.x - a.half_width() > 0.0625 && a.x + a.half_width() < 0.9375, "{a:?}");
                assert!(a.y - a.radius > 0.0625 && a.y + a.radius < 0.9375, "{a:?}");
                for b in &scene.groups[..i] {
                    assert!(a.shape != b.shape && a.colour != b.colour);
                    let apart_x = (a.x - b.x).abs() - a.half_width() - b.half_width();
                    let apart_y = (a.y - b.y).abs() - a.radius - b.radius;
                    assert!(apart_x > 0.0 || apart_y > 0.0, "{a:?} touches {b:?}");
                }
            }
        }
    }
}
