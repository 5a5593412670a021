//! Section of the settings: one card for each stage that the results follow from.

use serde_json::Map;

use super::document::{PageBlock, Section, SettingEntry, SettingsCard};
use super::setting_text::{SettingDefaults, changed_part, default_value, setting_text};
use pairloom_base::error::Result;
use pairloom_stage::{AncestorArtefact, AncestorInput, StageLineage};

const NOTE: &str = "One card for each stage that the results follow from, with the start of its key in the store. Visible are the main \
     settings and all that differ from their defaults. Sources are named by a digest of their content (BLAKE3).";

/// Digits of a digest that are shown.
const DIGEST_DIGITS: usize = 12;

/// Settings that are open even with their defaults, in the order of the card. The other settings of a card follow in
/// the order of their names.
const MAIN_SETTINGS: [(&str, &[&str]); 6] = [
    ("score_captions", &["measure", "pairs"]),
    ("extract", &["network", "weights", "torchscript", "pooling"]),
    ("train", &["loss", "epochs", "batch_size", "learning_rate", "seed", "memory_bank", "model"]),
    ("import_model", &["model"]),
    ("evaluate", &["dataset", "split", "methods", "protocols", "similarity"]),
    ("test_significance", &["baseline"]),
];

/// Section of all stages in the lineage of the page, if there are any.
pub(super) fn section(lineage: &StageLineage) -> Result<Option<Section>> {
    section_with(lineage, NOTE.to_owned())
}

/// Same section of a sweep, whose lineage has the first run only.
pub(super) fn section_of_first_run(lineage: &StageLineage) -> Result<Option<Section>> {
    section_with(lineage, format!("Of the runs of the sweep, the stages of the first one are shown. {NOTE}"))
}

fn section_with(lineage: &StageLineage, note: String) -> Result<Option<Section>> {
    if lineage.artefacts.is_empty() {
        return Ok(None);
    }
    let defaults = SettingDefaults::read()?;
    let cards = lineage.artefacts.iter().map(|artefact| card(artefact, lineage, &defaults)).collect();
    Ok(Some(Section::new("Settings", vec![PageBlock::Settings(cards), PageBlock::Note(note)])))
}

fn card(artefact: &AncestorArtefact, lineage: &StageLineage, defaults: &SettingDefaults) -> SettingsCard {
    let kind = artefact.kind.as_str();
    let empty = Map::new();
    let mut settings = artefact.settings.as_object().unwrap_or(&empty);
    let (mut open, mut folded) = (Vec::new(), Vec::new());
    let mut form = None;
    if let (true, Some((name, content))) = (defaults.has_forms(kind), settings.iter().next()) {
        open.push(SettingEntry::new("form", name));
        form = Some(name.as_str());
        settings = content.as_object().unwrap_or(&empty);
    }
    let schema = defaults.settings_schema(kind, form);
    let main = MAIN_SETTINGS.iter().find(|(of, _)| *of == kind).map_or(&[][..], |(_, names)| names);
    let named = main.iter().filter_map(|name| settings.get_key_value(*name));
    let others = settings.iter().filter(|(name, _)| !main.contains(&name.as_str()));
    for (name, value) in named.chain(others).filter(|(_, value)| !value.is_null()) {
        let default = default_value(schema, name);
        let changed = default.map_or_else(|| Some(value.clone()), |default| changed_part(value, default));
        match changed {
            None if main.contains(&name.as_str()) => open.push(SettingEntry::new(name, &setting_text(value))),
            None => folded.push(SettingEntry::new(name, &setting_text(value))),
            Some(changed) => {
                open.push(SettingEntry::new(name, &setting_text(&changed)));
                if changed != *value {
                    folded.push(SettingEntry::new(name, &setting_text(value)));
                }
            }
        }
    }
    for (name, input) in &artefact.inputs {
        match input {
            AncestorInput::Source { digest } => {
                open.push(SettingEntry::new(name, digest.get(..DIGEST_DIGITS).unwrap_or(digest)));
            }
            AncestorInput::Artefact { key, output } => {
                let producer = lineage.artefact(key).map_or_else(|| key.clone(), artefact_name);
                folded.push(SettingEntry::new(name, &format!("{output} of {producer}")));
            }
        }
    }
    let remark = format!("{}, version {}", artefact.short_key(), artefact.version);
    SettingsCard { title: kind.to_owned(), remark, open, folded, folded_title: "Defaults and inputs" }
}

/// Name of an artefact: `train 1a2b3c4d`.
fn artefact_name(artefact: &AncestorArtefact) -> String {
    format!("{} {}", artefact.kind, artefact.short_key())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn entries(entries: &[SettingEntry]) -> Vec<String> {
        entries.iter().map(|entry| format!("{}: {}", entry.name, entry.value)).collect()
    }

    fn artefact(kind: &str, settings: Value, inputs: &[(&str, AncestorInput)]) -> AncestorArtefact {
        AncestorArtefact {
            kind: kind.to_owned(),
            key: format!("{kind:0<8}0123456789"),
            version: 3,
            settings,
            inputs: inputs.iter().map(|(name, input)| ((*name).to_owned(), input.clone())).collect(),
        }
    }

    #[test]
    fn cards_open_with_the_main_settings_and_with_those_that_differ_from_their_defaults() {
        let source = AncestorInput::Source { digest: "0123456789abcdef0123".to_owned() };
        let images = artefact(
            "ingest",
            json!({ "karpathy": { "json": null, "captions_per_image": 4 } }),
            &[("karpathy.json", source)],
        );
        let captions = AncestorInput::Artefact { key: images.key.clone(), output: "captions".to_owned() };
        let settings = json!({
            "loss": { "max": { "margin": 0.2 } }, "epochs": 3, "batch_size": 128, "same_image": "mask", "seed": 7,
            "min_count": 4, "captions": null, "model": { "vse": { "bidirectional": false, "embed_size": 256,
            "pooling": "last", "similarity": "cosine", "word_dim": 300 } },
        });
        let train = artefact("train", settings, &[("captions", captions)]);
        let lineage = StageLineage { inputs: [].into(), artefacts: vec![images, train] };
        let Some(Section { blocks, .. }) = section(&lineage).expect("a schema") else { panic!("a section") };
        let PageBlock::Settings(cards) = &blocks[0] else { panic!("cards") };
        assert_eq!(entries(&cards[0].open), ["form: karpathy", "captions_per_image: 4", "karpathy.json: 0123456789ab"]);
        assert_eq!(cards[1].remark, "train000, version 3");
        assert_eq!(
            entries(&cards[1].open),
            [
                "loss: max (margin = 0.2)",
                "epochs: 3",
                "batch_size: 128",
                "seed: 7",
                "model: vse (embed_size = 256)",
                "same_image: mask"
            ]
        );
        let model =
            "model: vse (bidirectional = false, embed_size = 256, pooling = last, similarity = cosine, word_dim = 300)";
        assert_eq!(entries(&cards[1].folded), [model, "min_count: 4", "captions: captions of ingest ingest00"]);
    }
}
