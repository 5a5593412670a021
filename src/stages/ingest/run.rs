//! Chooses the reader of a form of data set.

use super::{Ingest, captions, coco, embeddings, flickr, karpathy, precomp, ratings, scenes};
use crate::error::Result;
use crate::stage::{Cx, Run};

impl Run for Ingest {
    fn run(&self, cx: &mut Cx<'_>) -> Result<()> {
        match self {
            Ingest::Karpathy(set) => karpathy::run(set, cx),
            Ingest::Flickr(set) => flickr::run(set, cx),
            Ingest::Coco(set) => coco::run(set, cx),
            Ingest::Precomp(set) => precomp::run(set, cx),
            Ingest::Captions(set) => captions::run(set, cx),
            Ingest::Ratings(_) => ratings::run(cx),
            Ingest::Embeddings(set) => embeddings::run(set, cx),
            Ingest::Scenes(set) => scenes::run(set, cx),
        }
    }
}
