//! Colours, and shapes of objects and backgrounds as functions from a point to a colour.
//!
//! A shape fills the square from -1 to 1; x goes right, y goes down. The functions use only sums, products, quotients
//! and comparisons.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectShape {
    Ball,
    Box,
    Pyramid,
    Star,
    Heart,
    Ring,
    Diamond,
    Cross,
    Moon,
    House,
    Tree,
    Flower,
    Fish,
    Boat,
    Mushroom,
    Cup,
}

/// Colour at a point of a shape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum PointColour {
    /// Colour of the object, multiplied by a brightness factor.
    Body(f64),
    /// Fixed colour, for objects of every colour.
    Fixed([f64; 3]),
}

const WOOD: PointColour = PointColour::Fixed([104.0, 66.0, 38.0]);
const CREAM: PointColour = PointColour::Fixed([240.0, 226.0, 196.0]);
const INK: PointColour = PointColour::Fixed([24.0, 24.0, 28.0]);
const GLASS: PointColour = PointColour::Fixed([176.0, 216.0, 240.0]);
const GOLD: PointColour = PointColour::Fixed([236.0, 190.0, 60.0]);

/// Sine and negated cosine of 0, 72, 144, 216 and 288 degrees: the corners of a pentagon, from the top.
const PENTAGON: [(f64, f64); 5] = [
    (0.0, -1.0),
    (0.951_056_516_295_153_6, -0.309_016_994_374_947_4),
    (0.587_785_252_292_473_1, 0.809_016_994_374_947_4),
    (-0.587_785_252_292_473_1, 0.809_016_994_374_947_4),
    (-0.951_056_516_295_153_6, -0.309_016_994_374_947_4),
];

impl ObjectShape {
    pub const ALL: [Self; 16] = [
        Self::Ball,
        Self::Box,
        Self::Pyramid,
        Self::Star,
        Self::Heart,
        Self::Ring,
        Self::Diamond,
        Self::Cross,
        Self::Moon,
        Self::House,
        Self::Tree,
        Self::Flower,
        Self::Fish,
        Self::Boat,
        Self::Mushroom,
        Self::Cup,
    ];

    /// Returns the colour at (x, y); `None` outside of the shape.
    pub fn colour_at(self, x: f64, y: f64) -> Option<PointColour> {
        match self {
            Self::Ball => ball(x, y),
            Self::Box => parcel(x, y),
            Self::Pyramid => pyramid(x, y),
            Self::Star => star(x, y),
            Self::Heart => heart(x, y),
            Self::Ring => ring(x, y),
            Self::Diamond => diamond(x, y),
            Self::Cross => cross(x, y),
            Self::Moon => moon(x, y),
            Self::House => house(x, y),
            Self::Tree => tree(x, y),
            Self::Flower => flower(x, y),
            Self::Fish => fish(x, y),
            Self::Boat => boat(x, y),
            Self::Mushroom => mushroom(x, y),
            Self::Cup => cup(x, y),
        }
    }
}

fn disc(x: f64, y: f64, centre: (f64, f64), radius: f64) -> bool {
    let (x, y) = (x - centre.0, y - centre.1);
    x * x + y * y <= radius * radius
}

fn ball(x: f64, y: f64) -> Option<PointColour> {
    disc(x, y, (0.0, 0.0), 1.0).then(|| {
        if disc(x, y, (-0.35, -0.4), 0.25) {
            PointColour::Body(1.5)
        } else if disc(x, y, (-0.2, -0.2), 0.95) {
            PointColour::Body(1.0)
        } else {
            PointColour::Body(0.75)
        }
    })
}

fn parcel(x: f64, y: f64) -> Option<PointColour> {
    let lid = x.abs() <= 0.95 && (-0.85..=-0.45).contains(&y);
    let body = x.abs() <= 0.85 && (-0.45..=0.9).contains(&y);
    (lid || body)
        .then(|| if x.abs() < 0.14 { PointColour::Body(0.6) } else { PointColour::Body(if lid { 1.2 } else { 1.0 }) })
}

fn pyramid(x: f64, y: f64) -> Option<PointColour> {
    let half = (y + 0.95) * 0.53;
    (y <= 0.9 && x.abs() <= half).then_some(PointColour::Body(if x < half * 0.3 { 1.1 } else { 0.7 }))
}

fn star(x: f64, y: f64) -> Option<PointColour> {
    // Outer and inner corners alternate. Inner corner i is opposite to the outer corner three positions further.
    let corner = |i: usize| match PENTAGON[(i / 2 + 3 * (i % 2)) % 5] {
        (x, y) if i % 2 == 1 => (-0.42 * x, -0.42 * y),
        outer => outer,
    };
    let mut inside = false;
    for i in 0..10 {
        let ((ax, ay), (bx, by)) = (corner(i), corner((i + 1) % 10));
        if (ay > y) != (by > y) && x < (bx - ax) * (y - ay) / (by - ay) + ax {
            inside = !inside;
        }
    }
    inside.then_some(PointColour::Body(1.0))
}

fn heart(x: f64, y: f64) -> Option<PointColour> {
    let (x, y) = (x * 1.18, 0.15 - y * 1.15);
    let bulge = x * x + y * y - 1.0;
    (bulge * bulge * bulge <= x * x * y * y * y).then_some(PointColour::Body(if disc(x, y, (-0.5, 0.5), 0.22) {
        1.4
    } else {
        1.0
    }))
}

fn ring(x: f64, y: f64) -> Option<PointColour> {
    (disc(x, y, (0.0, 0.0), 1.0) && !disc(x, y, (0.0, 0.0), 0.55))
        .then_some(PointColour::Body(if disc(x, y, (0.0, 0.0), 0.68) { 0.8 } else { 1.0 }))
}

fn diamond(x: f64, y: f64) -> Option<PointColour> {
    let facet = match (x < 0.0, y < 0.0) {
        (true, true) => 1.3,
        (false, true) => 1.0,
        (true, false) => 0.9,
        (false, false) => 0.7,
    };
    (x.abs() / 0.75 + y.abs() <= 1.0).then_some(PointColour::Body(facet))
}

fn cross(x: f64, y: f64) -> Option<PointColour> {
    let (x, y) = (x.abs(), y.abs());
    ((x <= 0.32 && y <= 0.95) || (y <= 0.32 && x <= 0.95)).then_some(PointColour::Body(1.0))
}

fn moon(x: f64, y: f64) -> Option<PointColour> {
    (disc(x, y, (0.0, 0.0), 1.0) && !disc(x, y, (0.48, -0.12), 0.8)).then_some(PointColour::Body(1.0))
}

fn house(x: f64, y: f64) -> Option<PointColour> {
    if (-0.95..0.0).contains(&y) {
        return (x.abs() <= (y + 0.95) * 1.05).then_some(PointColour::Body(0.65));
    }
    (x.abs() <= 0.78 && (0.0..=0.95).contains(&y)).then(|| {
        if (-0.1..0.3).contains(&x) && y > 0.35 {
            WOOD
        } else if (-0.58..-0.24).contains(&x) && (0.28..0.62).contains(&y) {
            GLASS
        } else {
            PointColour::Body(1.0)
        }
    })
}

fn tree(x: f64, y: f64) -> Option<PointColour> {
    let crown = disc(x, y, (0.0, -0.4), 0.58) || disc(x, y, (-0.4, 0.0), 0.42) || disc(x, y, (0.4, 0.0), 0.42);
    if crown {
        return Some(PointColour::Body(if disc(x, y, (-0.2, -0.5), 0.3) { 1.2 } else { 1.0 }));
    }
    (x.abs() <= 0.14 && (0.0..=1.0).contains(&y)).then_some(WOOD)
}

fn flower(x: f64, y: f64) -> Option<PointColour> {
    if disc(x, y, (0.0, 0.0), 0.28) {
        return Some(GOLD);
    }
    let petal = |&(px, py): &(f64, f64)| disc(x, y, (0.58 * px, 0.58 * py), 0.38);
    PENTAGON.iter().any(petal).then_some(PointColour::Body(if disc(x, y, (0.0, 0.0), 0.5) { 0.85 } else { 1.0 }))
}

fn fish(x: f64, y: f64) -> Option<PointColour> {
    if disc(x, y, (-0.55, -0.12), 0.09) {
        return Some(INK);
    }
    let body = disc(x / 0.72 + 0.34, y / 0.52, (0.0, 0.0), 1.0);
    let tail = (0.35..=0.98).contains(&x) && y.abs() <= (x - 0.2) * 0.7;
    if body {
        return Some(PointColour::Body(if y > 0.2 { 1.25 } else { 1.0 }));
    }
    tail.then_some(PointColour::Body(0.75))
}

fn boat(x: f64, y: f64) -> Option<PointColour> {
    let hull = (0.3..=0.85).contains(&y) && x.abs() <= 1.0 - (y - 0.3) * 0.7;
    let sail = (-0.9..=0.2).contains(&y) && (0.08..=0.08 + (y + 0.9) * 0.65).contains(&x);
    let jib = (-0.6..=0.2).contains(&y) && (-0.08 - (y + 0.6) * 0.6..=-0.08).contains(&x);
    if hull {
        return Some(PointColour::Body(if y > 0.62 { 0.75 } else { 1.0 }));
    }
    if sail || jib {
        return Some(CREAM);
    }
    (x.abs() <= 0.05 && (-0.95..=0.3).contains(&y)).then_some(WOOD)
}

fn mushroom(x: f64, y: f64) -> Option<PointColour> {
    if y <= 0.1 && disc(x, (y - 0.1) * 0.95, (0.0, 0.0), 0.98) {
        let spots = [(-0.5, -0.2), (0.05, -0.55), (0.5, -0.25)];
        let spotted = spots.iter().any(|&centre| disc(x, y, centre, 0.16));
        return Some(if spotted { CREAM } else { PointColour::Body(1.0) });
    }
    ((0.1..=0.95).contains(&y) && x.abs() <= 0.2 + y * 0.12).then_some(CREAM)
}

fn cup(x: f64, y: f64) -> Option<PointColour> {
    let body = (-0.75..=0.85).contains(&y) && (x + 0.15).abs() <= 0.72 - y * 0.12;
    if body {
        return Some(PointColour::Body(if y < -0.58 { 0.6 } else { 1.0 }));
    }
    let handle = disc(x, y, (0.5, 0.0), 0.48) && !disc(x, y, (0.5, 0.0), 0.28);
    handle.then_some(PointColour::Body(0.85))
}

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

/// Colour that a caption can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Colour {
    Red,
    Orange,
    Yellow,
    Green,
    Blue,
    Purple,
    Pink,
    Brown,
    Black,
    White,
    Grey,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the area of the shape as a share of its square, by counting points.
    fn area(shape: ObjectShape) -> f64 {
        let n = 400;
        let at = |i: i32| (f64::from(i) + 0.5) / f64::from(n) * 2.0 - 1.0;
        let hits =
            (0..n).flat_map(|i| (0..n).map(move |j| (at(i), at(j)))).filter(|&(x, y)| shape.colour_at(x, y).is_some());
        f64::from(u32::try_from(hits.count()).unwrap()) / f64::from(n * n)
    }

    #[test]
    fn areas_equal_the_geometric_formulas() {
        let near = |shape, expected: f64| {
            let got = area(shape);
            assert!((got - expected).abs() < 2e-3, "{shape:?}: {got}, expected {expected}");
        };
        let pi = std::f64::consts::PI;
        near(ObjectShape::Ball, pi / 4.0);
        near(ObjectShape::Ring, pi / 4.0 * (1.0 - 0.55 * 0.55));
        near(ObjectShape::Diamond, 2.0 * 0.75 / 4.0);
        near(ObjectShape::Cross, (2.0 * 0.64 * 1.9 - 0.64 * 0.64) / 4.0);
        // Ten triangles from the centre, each with sides 1 and 0.42 at 36 degrees.
        near(ObjectShape::Star, 10.0 * 0.5 * 0.42 * (pi / 5.0).sin() / 4.0);
    }

    #[test]
    fn every_shape_fills_its_square_and_shows_its_colour() {
        for shape in ObjectShape::ALL {
            assert!(area(shape) > 0.25, "{shape:?} is thin");
            for i in 0..=100 {
                let along = f64::from(i) / 50.0 - 1.0;
                for (x, y) in [(along, -1.02), (along, 1.02), (-1.02, along), (1.02, along)] {
                    assert_eq!(shape.colour_at(x, y), None, "{shape:?} leaves its square at {x} {y}");
                }
            }
        }
    }
}
