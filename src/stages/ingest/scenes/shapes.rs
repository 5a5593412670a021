//! Shapes as functions from a point to what is seen there.
//!
//! A shape fills the square from -1 to 1; x goes right, y goes down. Every function uses sums, products and comparisons
//! only.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
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

/// What is seen at a point of a shape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Tone {
    /// The colour of the thing, at this brightness: 1 is the colour itself.
    Body(f64),
    /// A colour that is the same for things of every colour.
    Fixed([f64; 3]),
}

const WOOD: Tone = Tone::Fixed([104.0, 66.0, 38.0]);
const CREAM: Tone = Tone::Fixed([240.0, 226.0, 196.0]);
const INK: Tone = Tone::Fixed([24.0, 24.0, 28.0]);
const GLASS: Tone = Tone::Fixed([176.0, 216.0, 240.0]);
const GOLD: Tone = Tone::Fixed([236.0, 190.0, 60.0]);

/// Sine and negated cosine of 0, 72, 144, 216 and 288 degrees: the corners of a pentagon, from the top.
const PENTAGON: [(f64, f64); 5] = [
    (0.0, -1.0),
    (0.951_056_516_295_153_6, -0.309_016_994_374_947_4),
    (0.587_785_252_292_473_1, 0.809_016_994_374_947_4),
    (-0.587_785_252_292_473_1, 0.809_016_994_374_947_4),
    (-0.951_056_516_295_153_6, -0.309_016_994_374_947_4),
];

impl Shape {
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

    /// What is seen at (x, y); `None` beside the shape.
    pub fn tone(self, x: f64, y: f64) -> Option<Tone> {
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

fn ball(x: f64, y: f64) -> Option<Tone> {
    disc(x, y, (0.0, 0.0), 1.0).then(|| {
        if disc(x, y, (-0.35, -0.4), 0.25) {
            Tone::Body(1.5)
        } else if disc(x, y, (-0.2, -0.2), 0.95) {
            Tone::Body(1.0)
        } else {
            Tone::Body(0.75)
        }
    })
}

fn parcel(x: f64, y: f64) -> Option<Tone> {
    let lid = x.abs() <= 0.95 && (-0.85..=-0.45).contains(&y);
    let body = x.abs() <= 0.85 && (-0.45..=0.9).contains(&y);
    (lid || body).then(|| if x.abs() < 0.14 { Tone::Body(0.6) } else { Tone::Body(if lid { 1.2 } else { 1.0 }) })
}

fn pyramid(x: f64, y: f64) -> Option<Tone> {
    let half = (y + 0.95) * 0.53;
    (y <= 0.9 && x.abs() <= half).then_some(Tone::Body(if x < half * 0.3 { 1.1 } else { 0.7 }))
}

fn star(x: f64, y: f64) -> Option<Tone> {
    // Corners lie outside and inside by turns; an inner one is opposite of the outer one three further.
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
    inside.then_some(Tone::Body(1.0))
}

fn heart(x: f64, y: f64) -> Option<Tone> {
    let (x, y) = (x * 1.18, 0.15 - y * 1.15);
    let bulge = x * x + y * y - 1.0;
    (bulge * bulge * bulge <= x * x * y * y * y)
        .then(|| Tone::Body(if disc(x, y, (-0.5, 0.5), 0.22) { 1.4 } else { 1.0 }))
}

fn ring(x: f64, y: f64) -> Option<Tone> {
    (disc(x, y, (0.0, 0.0), 1.0) && !disc(x, y, (0.0, 0.0), 0.55))
        .then_some(Tone::Body(if disc(x, y, (0.0, 0.0), 0.68) { 0.8 } else { 1.0 }))
}
