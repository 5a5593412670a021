//! Regions of images as sets of vectors.

use az::SaturatingAs;
use tch::{Kind, Tensor};

use super::encoded_items::EncodedItems;
use pairloom_base::error::{Error, Result};

/// Prefix of the parameters of the linear layer of regions, in every published model.
pub const REGION_LAYER: &str = "img_enc.fc";

/// Splits images `[n, R · D]` into their regions of `width` D. A place that holds only zeros is no region, so images may
/// have different numbers of regions.
///
/// # Errors
/// Images that are not a whole number of regions, or an image without a region.
pub fn region_sets(images: &Tensor, width: usize) -> Result<EncodedItems> {
    let (n, width) = (images.size()[0], width.saturating_as::<i64>());
    if width == 0 || images.size()[1] % width != 0 {
        let values = images.size()[1];
        return Err(Error::internal(format!("{values} values of an image are not regions of width {width}")));
    }
    let places = images.size()[1] / width;
    let rows = images.view([n * places, width]);
    let present = rows.ne(0.0).any_dim(1, false);
    if present.all().int64_value(&[]) != 0 {
        return Ok(EncodedItems { vectors: rows, lengths: Some(vec![places; n.saturating_as::<usize>()]) });
    }
    let counts = present.view([n, places]).sum_dim_intlist(1i64, false, Kind::Int64);
    let lengths = Vec::<i64>::try_from(&counts).map_err(|error| Error::internal(error.to_string()))?;
    if let Some(image) = lengths.iter().position(|&count| count == 0) {
        return Err(Error::data(format!("image {image} of a block has no region, wanted at least one")));
    }
    Ok(EncodedItems { vectors: rows.index_select(0, &present.nonzero().view(-1)), lengths: Some(lengths) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_zeros_are_no_regions() {
        let images = Tensor::from_slice(&[1.0f32, 2.0, 0.0, 3.0, 4.0, 5.0, 0.0, 0.0]).view([2, 4]);
        let sets = region_sets(&images, 2).expect("regions");
        assert_eq!(sets.lengths, Some(vec![2, 1]));
        assert_eq!(Vec::<f32>::try_from(sets.vectors.view(-1)).expect("f32"), [1.0, 2.0, 0.0, 3.0, 4.0, 5.0]);
        let full = region_sets(&images.narrow(0, 0, 1), 2).expect("regions");
        assert_eq!((full.lengths, full.vectors.size()), (Some(vec![2]), vec![2, 2]));
        let error = region_sets(&Tensor::zeros([1, 4], (Kind::Float, tch::Device::Cpu)), 2).expect_err("none");
        assert_eq!(error.to_string(), "image 0 of a block has no region, wanted at least one");
        assert!(region_sets(&images, 3).is_err());
    }
}
