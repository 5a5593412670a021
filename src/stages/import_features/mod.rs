//! `import_features`: vectors of images in Parquet, Arrow or npy files, `images` → `features`, or `regions`.

mod import;
mod imported_rows;
#[cfg(test)]
mod tests;

pub use import::ImportFeatures;
