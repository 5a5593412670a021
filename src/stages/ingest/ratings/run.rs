//! Run of `ratings`: reads the file in its form and writes the rows.

use super::names::PairNames;
use super::settings::{FILE, RatingForm, RatingTable};
use super::{expert, pair_table, rows};
use pairloom_base::error::{Error, Result};
use pairloom_stage::StageContext;

/// Reads the file and writes `ratings`, in the order of the file.
pub(in super::super) fn run(settings: &RatingTable, cx: &mut StageContext<'_>) -> Result<()> {
    let names = PairNames::read(settings, cx)?;
    let path = cx.source(FILE)?;
    let ratings = match settings.form {
        RatingForm::Crisscrossed => pair_table::read(&path, settings.separator, &names, cx)?,
        RatingForm::Flickr8kExpert => expert::read(&path, &names)?,
    };
    if ratings.is_empty() {
        return Err(Error::data(format!("`{}` has no ratings", path.display())));
    }
    rows::write(&ratings, cx)
}
