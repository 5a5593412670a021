//! Pictures and captions that are made up, so that everything runs with no download.
//!
//! A picture shows two or three kinds of things, each with a shape, a colour, a size, a number and a place, in front of
//! one of ten backgrounds. Five captions say what is to be seen, each with its own choice of words, order, detail and
//! spatial relation: a caption is told from that of another picture by what it means and by nothing else.
//!
//! A picture and its captions are a pure function of the seed and the image's index. Only arithmetic that IEEE 754
//! defines to the bit is used (no sine, no power), so that the bytes are the same on every machine.

mod pixels;
mod generate;
mod colour;
mod scene;
mod shapes;
mod ground;
mod paint;
mod words;

pub(super) use generate::run;
pub(super) use pixels::PIXELS;
