//! Text of a pipeline file for data whose form is known.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::super::console::one_line;

/// Number of images from which the settings of whole data sets are better than those for a few photographs.
const MANY_IMAGES: usize = 5000;

/// Number of images below which a random split may have an empty part.
const FEW_IMAGES: usize = 20;

/// Pipeline for data.
#[derive(Debug)]
pub(super) struct Draft {
    /// What was found, in words.
    pub found: String,
    /// Lines about what people may want to change in the source.
    pub notes: Vec<String>,
    /// Form of `ingest`, such as `karpathy`, and its settings.
    pub form: &'static str,
    pub settings: Vec<(&'static str, Value)>,
    /// What comes after the source.
    pub content: Content,
    /// Number of images; `None` if only reading everything would tell.
    pub images: Option<usize>,
    /// Split that is tested.
    pub tested: &'static str,
}

/// Value of a setting.
#[derive(Debug)]
pub(super) enum Value {
    Path(PathBuf),
    Text(String),
    Number(usize),
    /// Share in percent.
    Share(usize),
    True,
    Split(Split),
    /// Table of names: `{ caption = "text" }`.
    Names(Vec<(&'static str, String)>),
    /// Annotation files of COCO: file, folder of its images, split.
    CocoFiles(Vec<(PathBuf, String, &'static str)>),
}

/// Split of the images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Split {
    /// Column of a table, with the splits of those of its values that are none, and the split that is tested.
    Column { name: String, values: Vec<(String, &'static str)>, tested: &'static str },
    /// Random, by the number of images.
    Random(Option<usize>),
}

/// What the source has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Pictures with captions.
    Pictures,
    /// Pictures alone.
    PicturesAlone,
    /// Vectors of images, with captions.
    Features,
    /// Vectors of regions, with captions.
    Regions,
    /// Vectors of images and captions in one space.
    Embeddings,
}

impl Split {
    /// Split that is tested: `test`, or all images if they are too few.
    pub(super) fn tested(&self) -> &'static str {
        match self {
            Self::Random(Some(images)) if *images < FEW_IMAGES => "train",
            Self::Random(_) => "test",
            Self::Column { tested, .. } => tested,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Column { name, values, .. } if values.is_empty() => format!("{{ column = {} }}", quoted(name)),
            Self::Column { name, values, .. } => {
                let values: Vec<String> =
                    values.iter().map(|(value, split)| format!("{} = \"{split}\"", key(value))).collect();
                format!("{{ column = {{ name = {}, values = {{ {} }} }} }}", quoted(name), values.join(", "))
            }
            Self::Random(Some(images)) if *images < FEW_IMAGES => "\"train\"".to_owned(),
            Self::Random(Some(images)) if *images < 10 * FEW_IMAGES => {
                "{ fractions = { val = 0.25, test = 0.25 } }".to_owned()
            }
            Self::Random(_) => "{ fractions = { val = 0.1, test = 0.1 } }".to_owned(),
        }
    }

    fn note(&self) -> Option<&'static str> {
        match self {
            Self::Column { tested: "test", .. } => None,
            Self::Column { .. } => {
                Some("The column has no test images: the results are those of the validation images.")
            }
            Self::Random(Some(images)) if *images < FEW_IMAGES => {
                Some("Too few images for a test: all are trained on, and the results are those of the training images.")
            }
            Self::Random(_) => Some(
                "A random split by the name of an image, so it stays when others are added. For a column of the data: split = \
                 { column = \"split\" }",
            ),
        }
    }
}

/// Key of a table in TOML.
fn key(name: &str) -> String {
    let is_bare = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if is_bare { name.to_owned() } else { quoted(name) }
}

/// Paths as a pipeline file writes them.
pub(super) struct TomlPaths {
    folder: PathBuf,
}

impl TomlPaths {
    /// Paths in a file in `folder`: relative if they are below it, otherwise absolute.
    pub(super) fn relative_to(folder: &Path) -> Self {
        Self { folder: absolute(folder) }
    }

    fn text(&self, path: &Path) -> String {
        let path = absolute(path);
        match path.strip_prefix(&self.folder) {
            Ok(below) if below.as_os_str().is_empty() => quoted("."),
            Ok(below) => quoted(&below.display().to_string()),
            Err(_) => quoted(&path.display().to_string()),
        }
    }
}

fn absolute(path: &Path) -> PathBuf {
    // The empty path is the current folder.
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.components().collect()
}

/// Text in TOML. Strings of JSON are strings of TOML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl Draft {
    fn split(&self) -> Option<&Split> {
        self.settings.iter().find_map(|(_, value)| match value {
            Value::Split(split) => Some(split),
            _ => None,
        })
    }

    /// What people may want to change in the source.
    pub(super) fn notes(&self) -> impl Iterator<Item = &str> {
        self.notes.iter().map(String::as_str).chain(self.split().and_then(Split::note))
    }

    /// Where the split comes from, if `ingest` has the choice.
    pub(super) fn split_source(&self) -> Option<String> {
        Some(match self.split()? {
            Split::Column { name, values, .. } => {
                let values = values.iter().map(|(value, split)| format!(", with `{value}` as `{split}`"));
                format!("split: the column `{name}`{}", values.collect::<String>())
            }
            Split::Random(Some(images)) if *images < FEW_IMAGES => "split: none, all images are trained on".to_owned(),
            Split::Random(_) => "split: random, as no column of splits was found".to_owned(),
        })
    }

    /// Text of the pipeline file.
    pub(super) fn text(&self, data: &Path, file: &str, paths: &TomlPaths) -> String {
        let title = absolute(data).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut text = format!(
            "# Found by `pairloom init`: {}.\n#\n#     pairloom check {file}\n#     pairloom run {file}\n#     pairloom report \
             --output page\n#\n# All stages and settings are in docs/reference/pipeline-file.md.\nseed = 7\n\n",
            one_line(&self.found),
            file = one_line(file),
        );
        self.write_source(paths, &mut text);
        let pictures = match self.content {
            Content::Embeddings => {
                text.push_str(EVALUATE);
                text.push_str(
                    "images = \"theirs.image_embeddings\"\ncaptions = \"theirs.caption_embeddings\"\ndataset = \"theirs\"\n",
                );
                self.write_report("Vectors of another program", false, &mut text);
                return text;
            }
            Content::Pictures | Content::PicturesAlone => {
                text.push_str(EXTRACT);
                true
            }
            Content::Features | Content::Regions => false,
        };
        if self.content == Content::PicturesAlone {
            text.push_str(NO_CAPTIONS);
            return text;
        }
        let (features, model) = match self.content {
            Content::Pictures => ("features = \"cnn.features\"", "vse"),
            Content::Regions => ("regions = \"pairs.regions\"", "vse_infinity"),
            _ => ("features = \"pairs.features\"", "vse"),
        };
        self.write_training(features, model, &mut text);
        let split = self.tested;
        let _ = write!(
            text,
            "\n# Vectors of the images and captions of the split `{split}`.\n[stage.joint.embed]\nmodel = \
             \"fit.model\"\n{features}\ncaptions = \"pairs.captions\"\nsplits = [\"{split}\"]\n\n{EVALUATE}images = \
             \"joint.image_embeddings\"\ncaptions = \"joint.caption_embeddings\"\ndataset = {}\n",
            quoted(&title),
        );
        if split != "test" {
            let _ = writeln!(text, "split = \"{split}\"");
        }
        self.write_report(&title, pictures, &mut text);
        text
    }

    fn write_source(&self, paths: &TomlPaths, text: &mut String) {
        let name = if self.content == Content::Embeddings { "theirs" } else { "pairs" };
        for note in self.notes() {
            let _ = writeln!(text, "# {}", one_line(note));
        }
        let _ = writeln!(text, "[stage.{name}.ingest.{}]", self.form);
        for (setting, value) in &self.settings {
            let value = match value {
                Value::Path(path) => paths.text(path),
                Value::Text(value) => quoted(value),
                Value::Number(number) => number.to_string(),
                Value::Share(percent) => format!("{}.{:02}", percent / 100, percent % 100),
                Value::True => "true".to_owned(),
                Value::Split(split) => split.text(),
                Value::Names(names) => {
                    let names = names.iter().map(|(name, value)| format!("{name} = {}", quoted(value)));
                    format!("{{ {} }}", names.collect::<Vec<_>>().join(", "))
                }
                Value::CocoFiles(files) => {
                    let files = files.iter().map(|(file, folder, split)| {
                        let folder =
                            if folder.is_empty() { String::new() } else { format!(", folder = {}", quoted(folder)) };
                        format!("    {{ captions = {}{folder}, split = \"{split}\" }},\n", paths.text(file))
                    });
                    format!("[\n{}]", files.collect::<String>())
                }
            };
            let _ = writeln!(text, "{setting} = {value}");
        }
        text.push('\n');
    }

    fn write_training(&self, features: &str, model: &str, text: &mut String) {
        let is_large = self.images.is_some_and(|images| images >= MANY_IMAGES);
        let _ = write!(
            text,
            "# {}\n[stage.fit.train]\n{features}\ncaptions = \"pairs.captions\"\n",
            if is_large { LARGE_TRAINING } else { SMALL_TRAINING }
        );
        if is_large {
            let _ = write!(text, "loss = \"max\"\nmodel.{model}.embed_size = 1024\nbatch_size = 128\nepochs = 30\n");
        } else {
            let count = if self.images.is_some_and(|images| images < 10 * FEW_IMAGES) { 1 } else { 2 };
            let _ = write!(
                text,
                "loss = \"sum\"\nmodel.{model}.embed_size = 512\nmin_count = {count}\nbatch_size = 32\nlearning_rate = \
                 1e-3\nepochs = 15\n"
            );
        }
    }

    fn write_report(&self, title: &str, has_pictures: bool, text: &mut String) {
        let _ = write!(
            text,
            "\n# A page with the results: `pairloom report --output page`.\n[stage.page.report]\ntitle = {}\nsummary = \
             \"test.summary\"\nmetrics = \"test.metrics\"\nrankings = \"test.rankings\"\n",
            quoted(title)
        );
        if self.content != Content::Embeddings {
            text.push_str(
                "history = \"fit.history\"\nvalidation = \"fit.validation\"\ncaptions = \"pairs.captions\"\n",
            );
        }
        if has_pictures {
            text.push_str("images = \"pairs.images\"\n");
        }
    }
}

const EXTRACT: &str = "\
# Random weights show that everything runs, and are no features to report. Trained ones are a safetensors file with
# torchvision's parameter names: weights = { file = \"squeezenet1_0.safetensors\" }. `network` names 22 networks.
[stage.cnn.extract]
images = \"pairs.images\"
network = \"squeezenet1_0\"
weights = \"random\"
normalize = true
# on_undecodable = \"skip\"         # leave out damaged photographs, up to a tenth

";

const NO_CAPTIONS: &str = "\
# Without a table of captions, nothing can be trained. With one: captions = \"captions.csv\" above.
# `pairloom export cnn.features --output features` writes the vectors.
";

const SMALL_TRAINING: &str = "SUM learns from few images. From a few thousand on, MAX (\"max\") ends higher.";

const LARGE_TRAINING: &str = "VSE++ as published. For a first look: epochs = 3";

const EVALUATE: &str = "\
# Recalls, ranks and hubs of each direction. More ways to rank: methods = [\"nns\", \"csls\"]
[stage.test.evaluate]
";
