//! Identifiers of the images and captions that a file of ratings names.

use std::collections::HashMap;

use super::settings::{CAPTIONS, IMAGES, RatingTable};
use pairloom_base::error::Result;
use pairloom_stage::{StageContext, TableRef};
use pairloom_storage::image_names::shown_name;
use pairloom_tables as tables;

/// Sign between the file name of an image and the number of a caption.
pub(super) const CAPTION_SIGN: char = '#';

/// Finder of the identifiers of names.
#[derive(Debug)]
pub(super) enum PairNames {
    /// Identifiers are the numbers at the ends of the names.
    Numbers,
    /// Names are those of the tables `images` and `captions`.
    Tables(NamedItems),
}

/// Images by their file names, with their captions.
#[derive(Debug)]
pub(super) struct NamedItems {
    images: TableRef,
    captions: TableRef,
    /// Identifier of each file name; `None` for a name of several images.
    image_ids: HashMap<String, Option<i64>>,
    /// Captions of each image, in their order.
    caption_ids: HashMap<i64, Vec<i64>>,
}

impl PairNames {
    /// Reads the tables that the settings name.
    pub(super) fn read(settings: &RatingTable, cx: &mut StageContext<'_>) -> Result<Self> {
        let (Some(images), Some(captions)) = (&settings.images, &settings.captions) else { return Ok(Self::Numbers) };
        let mut items = NamedItems {
            images: images.clone(),
            captions: captions.clone(),
            image_ids: HashMap::new(),
            caption_ids: HashMap::new(),
        };
        while let Some(batch) = cx.read_next(IMAGES)? {
            let (ids, names) = (tables::int_column(&batch, "image_id")?, tables::text_column(&batch, "file_name")?);
            for row in 0..batch.num_rows() {
                let id = items.image_ids.entry(names.value(row).to_owned());
                id.and_modify(|known| *known = None).or_insert(Some(ids.value(row)));
            }
        }
        while let Some(batch) = cx.read_next(CAPTIONS)? {
            let (ids, images) = (tables::int_column(&batch, "caption_id")?, tables::int_column(&batch, "image_id")?);
            for row in 0..batch.num_rows() {
                items.caption_ids.entry(images.value(row)).or_default().push(ids.value(row));
            }
        }
        Ok(Self::Tables(items))
    }

    /// Identifier of an image.
    ///
    /// # Errors
    /// Message: the name is not among the images, or ends with no identifier.
    pub(super) fn image(&self, name: &str) -> Result<i64, String> {
        let name = name.trim();
        match self {
            Self::Numbers => trailing_number(name),
            Self::Tables(items) => items.image(name),
        }
        .map_err(|problem| format!("image {problem}"))
    }

    /// Identifier of a caption.
    ///
    /// # Errors
    /// Message: its image is not among the images, or has fewer captions; or the name ends with no identifier.
    pub(super) fn caption(&self, name: &str) -> Result<i64, String> {
        let name = name.trim();
        match self {
            Self::Numbers => trailing_number(name),
            Self::Tables(items) => items.caption(name),
        }
        .map_err(|problem| format!("caption {problem}"))
    }
}

impl NamedItems {
    fn image(&self, name: &str) -> Result<i64, String> {
        match self.image_ids.get(name) {
            Some(Some(id)) => Ok(*id),
            Some(None) => Err(format!("is `{}`, the file name of several images", shown_name(name))),
            None => Err(format!("is `{}`, which is no `file_name` of `{}`", shown_name(name), self.images)),
        }
    }

    fn caption(&self, name: &str) -> Result<i64, String> {
        let parts = name.rsplit_once(CAPTION_SIGN);
        let parts = parts.and_then(|(image, number)| Some((image, number.parse::<usize>().ok()?)));
        let Some((image, number)) = parts else {
            return Err(format!("is `{}`, wanted `IMAGE{CAPTION_SIGN}NUMBER`", shown_name(name)));
        };
        let of_image = self.caption_ids.get(&self.image(image)?).map_or(&[][..], Vec::as_slice);
        of_image.get(number).copied().ok_or_else(|| {
            let name = shown_name(image);
            let (name, count) = (format!("{name}{CAPTION_SIGN}{number}"), of_image.len());
            format!("is `{name}`, but that image has {count} captions in `{}`", self.captions)
        })
    }
}

/// Returns the number at the end of `name` without its extension: 732091 for `COCO_val2014:sentid:732091`, 365325 for
/// `COCO_val2014_000000365325.jpg`. The last word of the name must be a number, or letters and a number: the end of a
/// random name, such as `4f7d7ce270`, and `a.jpg#2` are no identifiers.
fn trailing_number(name: &str) -> Result<i64, String> {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let is_digit = |c: char| c.is_ascii_digit();
    let word = stem.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let digits = word.trim_start_matches(|c: char| !is_digit(c));
    let is_name = name.contains(CAPTION_SIGN) || (!digits.is_empty() && !digits.chars().all(is_digit));
    if is_name {
        return Err(format!(
            "is `{}`, a name without an identifier; set `images` and `captions` to look it up",
            shown_name(name)
        ));
    }
    digits.parse().map_err(|_| format!("is `{}`, wanted a name that ends with a number", shown_name(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_the_numbers_at_the_end() {
        assert_eq!(trailing_number("COCO_val2014:sentid:732091"), Ok(732_091));
        assert_eq!(trailing_number("COCO_val2014_000000365325.jpg"), Ok(365_325));
        assert_eq!(trailing_number("12"), Ok(12));
        assert_eq!(trailing_number("photographs/img12.jpg"), Ok(12));
        for name in ["", "a.jpg", "5é", "99999999999999999999"] {
            assert!(trailing_number(name).is_err(), "{name}");
        }
        assert!(trailing_number("a.jpg").unwrap_err().contains("wanted a name that ends with a number"));
    }

    /// File names of Flickr8k end with random letters and digits.
    #[test]
    fn the_end_of_a_random_name_is_no_identifier() {
        for name in ["1056338697_4f7d7ce270.jpg", "2549968784_39bfbe44f9.jpg#2", "a_12.jpg#0", "1_2f3"] {
            let message = trailing_number(name).unwrap_err();
            assert!(message.ends_with("; set `images` and `captions` to look it up"), "{name}: {message}");
        }
    }
}
