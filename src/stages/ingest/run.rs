//! Runs the reader of the chosen data set format.

use super::{
    Ingest, captions, coco, embeddings, flickr, hugging_face, image_folder, image_urls, karpathy, precomp, published,
    qrels, ratings, synthetic, webdataset,
};
use pairloom_base::error::Result;
use pairloom_stage::{RunnableStage, StageContext};

impl RunnableStage for Ingest {
    fn run(&self, cx: &mut StageContext<'_>) -> Result<()> {
        match self {
            Ingest::Karpathy(settings) => karpathy::run(settings, cx),
            Ingest::Flickr(settings) => flickr::run(settings, cx),
            Ingest::Coco(settings) => coco::run(settings, cx),
            Ingest::Precomp(settings) => precomp::run(settings, cx),
            Ingest::ImageFolder(settings) => image_folder::run(settings, cx),
            Ingest::Captions(settings) => captions::run(settings, cx),
            Ingest::Ratings(settings) => ratings::run(settings, cx),
            Ingest::Published(_) => published::run(cx),
            Ingest::Qrels(settings) => qrels::run(settings, cx),
            Ingest::Embeddings(settings) => embeddings::run(settings, cx),
            Ingest::WebDataset(settings) => webdataset::run(settings, cx),
            Ingest::HuggingFace(settings) => hugging_face::run(settings, cx),
            Ingest::ImageUrls(settings) => image_urls::run(settings, cx),
            Ingest::Synthetic(settings) => synthetic::run(settings, cx),
        }
    }
}
