//! Reader of `synthetic`: generated images and captions, which need no download.
//!
//! An image shows two or three groups of objects, each with a shape, a colour, a size, a count and a position, in front
//! of one of ten backgrounds. Five captions describe it, with different words, order, details and spatial relations. So
//! captions of different images differ in their meaning, not in their style.
//!
//! An image and its captions are a pure function of the seed and the image's index. Only arithmetic that IEEE 754
//! defines to the bit is used (no sine, no power), so the bytes are the same on every machine.

mod pixels;
mod generate;
mod colour;
mod scene;
mod shapes;
mod background;
mod render;
mod caption_text;

pub(super) use generate::run;
pub(super) use pixels::IMAGE_SIDES;
