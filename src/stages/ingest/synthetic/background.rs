//! Backgrounds of images.

use super::colour::Colour;

/// Background of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Background {
    Meadow,
    Beach,
    Night,
    Snow,
    Sunset,
    Bricks,
    Wood,
    Tiles,
    Water,
    Paper,
}

impl Background {
    pub const ALL: [Self; 10] = [
        Self::Meadow,
        Self::Beach,
        Self::Night,
        Self::Snow,
        Self::Sunset,
        Self::Bricks,
        Self::Wood,
        Self::Tiles,
        Self::Water,
        Self::Paper,
    ];

    /// Returns true if an object of this colour would be hard to see.
    pub fn is_low_contrast(self, colour: Colour) -> bool {
        match self {
            Self::Meadow => matches!(colour, Colour::Green),
            Self::Beach => matches!(colour, Colour::Yellow | Colour::White),
            Self::Night => matches!(colour, Colour::Black | Colour::Blue | Colour::Purple | Colour::Brown),
            Self::Snow => matches!(colour, Colour::White | Colour::Grey),
            Self::Sunset => matches!(colour, Colour::Orange | Colour::Pink | Colour::Purple | Colour::Brown),
            Self::Bricks => matches!(colour, Colour::Red | Colour::Brown | Colour::Orange),
            Self::Wood => matches!(colour, Colour::Brown | Colour::Orange),
            Self::Tiles => matches!(colour, Colour::White | Colour::Grey | Colour::Black),
            Self::Water => matches!(colour, Colour::Blue),
            Self::Paper => matches!(colour, Colour::White),
        }
    }

    /// Returns the RGB colour, 0 to 255, at (x, y) of the unit square. `shift`, in 0..1, moves horizons and patterns.
    pub fn colour(self, x: f64, y: f64, shift: f64) -> [f64; 3] {
        let horizon = 0.3 + 0.25 * shift;
        match self {
            Self::Meadow if y < horizon => mix([112.0, 176.0, 236.0], [190.0, 222.0, 246.0], y / horizon),
            Self::Meadow => mix([120.0, 186.0, 74.0], [82.0, 150.0, 52.0], (y - horizon) / (1.0 - horizon)),
            Self::Beach if y < 0.6 * horizon => [170.0, 214.0, 244.0],
            Self::Beach if y < horizon => mix([40.0, 140.0, 180.0], [90.0, 190.0, 206.0], y / horizon),
            Self::Beach => mix([238.0, 214.0, 156.0], [222.0, 190.0, 128.0], (y - horizon) / (1.0 - horizon)),
            Self::Night if y < 0.78 => {
                if is_star(x, y, shift) {
                    [250.0, 246.0, 214.0]
                } else {
                    mix([14.0, 18.0, 52.0], [34.0, 40.0, 96.0], y / 0.78)
                }
            }
            Self::Night => [20.0, 30.0, 36.0],
            Self::Snow if y < horizon => mix([176.0, 190.0, 208.0], [204.0, 214.0, 226.0], y / horizon),
            Self::Snow => mix([246.0, 249.0, 253.0], [226.0, 234.0, 244.0], (y - horizon) / (1.0 - horizon)),
            Self::Sunset if y < 0.8 => {
                let y = y / 0.8;
                if y < 0.5 {
                    mix([120.0, 60.0, 130.0], [236.0, 110.0, 90.0], 2.0 * y)
                } else {
                    mix([236.0, 110.0, 90.0], [252.0, 190.0, 90.0], 2.0 * y - 1.0)
                }
            }
            Self::Sunset => [58.0, 34.0, 52.0],
            Self::Bricks => {
                let course = (y + shift) * 9.0;
                let along = x * 4.5 + shift + 0.5 * (course.floor() % 2.0);
                let mortar = fraction(course) < 0.14 || fraction(along) < 0.06;
                let tone = 10.0 * fraction(along.floor() * 0.37 + course.floor() * 0.61);
                if mortar { [196.0, 186.0, 176.0] } else { [160.0 + tone, 74.0 + tone, 56.0 + tone] }
            }
            Self::Wood => {
                let plank = (y + shift) * 5.0;
                let grain = parabola_wave(y * 31.0 + 2.0 * parabola_wave(x * 1.5 + plank.floor() * 0.37));
                let tone = 24.0 * fraction(plank.floor() * 0.61) - 12.0 * grain;
                if fraction(plank) < 0.05 { [96.0, 60.0, 32.0] } else { [190.0 + tone, 136.0 + tone, 84.0 + tone] }
            }
            Self::Tiles => {
                let odd = ((x * 6.0 + shift).floor() + (y * 6.0 + shift).floor()) % 2.0;
                if odd == 0.0 { [232.0, 232.0, 228.0] } else { [78.0, 80.0, 84.0] }
            }
            Self::Water => {
                let crest = parabola_wave(y * 9.0 + 0.35 * parabola_wave(x * 3.0 + shift) + shift);
                mix([70.0, 160.0, 216.0], [120.0, 198.0, 236.0], crest)
            }
            Self::Paper => mix([250.0, 248.0, 240.0], [238.0, 236.0, 230.0], y),
        }
    }
}

/// Returns true if a star of the night sky is at (x, y). About one in three cells of a grid has a star.
fn is_star(x: f64, y: f64, shift: f64) -> bool {
    let (column, row) = ((x * 12.0).floor(), (y * 12.0).floor());
    let key = fraction(column * 0.731 + row * 0.417 + shift);
    let (dx, dy) =
        (fraction(x * 12.0) - 0.2 - 0.6 * fraction(key * 7.0), fraction(y * 12.0) - 0.2 - 0.6 * fraction(key * 11.0));
    key < 0.35 && dx * dx + dy * dy < 0.008 + 0.02 * key
}

fn mix(from: [f64; 3], to: [f64; 3], share: f64) -> [f64; 3] {
    [0, 1, 2].map(|i| from[i] + (to[i] - from[i]) * share)
}

/// Fractional part.
fn fraction(value: f64) -> f64 {
    value - value.floor()
}

/// Wave of parabolas with period 1 and values between 0 and 1.
fn parabola_wave(value: f64) -> f64 {
    let at = fraction(value);
    4.0 * at * (1.0 - at)
}
