//! Descriptions of the tables of the schema `store` and of their columns.

/// Description of a table of the store: its rows.
pub(super) fn table_description(table: &str) -> Option<&'static str> {
    Some(match table {
        "runs" => "One row per run, latest first.",
        "stages" => "One row per stage of a run.",
        "settings" => "One row per setting of a stage of a run, under a flat name.",
        "inputs" => "One row per input of an artefact: a table of another artefact, or a source.",
        "lineage" => {
            "One row per artefact or source that an artefact follows from, at any distance. A join with `store.stages` by `kind` and `key` selects a run."
        }
        "expectations" => "One row per expectation that a run checked.",
        "artefacts" => "One row per complete artefact: the result of a stage for certain settings and inputs.",
        "parts" => "One row per part of a table: a Parquet file.",
        "warnings" => "One row per warning of a complete artefact, or about the settings of a stage.",
        _ => return None,
    })
}

/// Description of a column of a table of the store.
pub(super) fn column_description(table: &str, column: &str) -> Option<&'static str> {
    Some(match (table, column) {
        ("artefacts", "seconds") => "Time that building the artefact took, in seconds.",
        ("artefacts", "finished") => "Time at which the artefact was complete, in UTC.",
        ("artefacts", "rows") => "Number of rows of all tables.",
        ("parts", "rows") => "Number of rows of the part.",
        ("stages", "seconds") => "Time that the stage took in this run, in seconds; missing if it was reused.",
        ("settings", "value") => "Value as text.",
        ("artefacts", "pinned") => "True if the artefact is pinned.",
        (_, "seconds") => "Duration of the run, in seconds.",
        (_, "repeat_of") => "First run of the pipeline with the same results, if the run changed nothing.",
        (_, "seed") => "Seed of the pipeline.",
        (_, "overrides") => "Arguments of `--set`, with a space between them.",
        (_, "command") => "Command that starts the run again.",
        (_, "device") => "Device of the tensors.",
        (_, "threads") => "Threads of a stage.",
        (_, "tags") => "Tags of the run, with a comma between them.",
        (_, "note") => "Note of the run.",
        (_, "pinned") => "True if the run is pinned.",
        (_, "metric") => "Name of the metric of `score`.",
        (_, "score") => "Best score of the run: of its evaluations, otherwise of its trainings.",
        (_, "score_stage") => "Stage that measured `score`.",
        (_, "score_of") => "Method or epoch of `score`.",
        (_, "setting") => "Name of the setting: `epochs`, `loss`, `loss.margin`.",
        (_, "number") => "Value as a number, if it is one.",
        (_, "input") => "Setting that names the input.",
        (_, "input_stage" | "ancestor_stage") => "Name of its stage in the latest run that has it.",
        (_, "input_kind" | "ancestor_kind") => "Kind of its stage.",
        (_, "input_key" | "ancestor_key") => "Its key.",
        (_, "input_table") => "Table or files that are read.",
        (_, "distance") => "Number of connections on the shortest way.",
        (_, "source_input") => "Setting that names the source, if the row is about one: the ancestor reads it.",
        (_, "source_path") => "Path of the source in the latest run that read it.",
        (_, "source_digest") => "Digest of the content of the source.",
        (_, "run") => "Name of the run: its start in UTC, and a suffix.",
        (_, "pipeline") => {
            "Pipeline file as the latest run named it, or its whole path if another pipeline has that name."
        }
        (_, "file") => "Canonical path of the pipeline file; missing for a pipe, and in records of older versions.",
        (_, "started") => "Start of the run, in UTC.",
        (_, "finished") => "End of the run, in UTC; missing while it runs.",
        (_, "outcome") => "`unfinished`, `finished`, `failed` or `interrupted`.",
        (_, "error") => "Error that ended the run.",
        (_, "stage") => "Name of the stage in the pipeline file; missing if no run uses the artefact.",
        (_, "kind") => "Kind of the stage: `train`, `evaluate`.",
        (_, "key") => "Key of the artefact: a hash of the stage's version, settings and inputs.",
        (_, "reused") => "True if the result of an earlier run was reused.",
        (_, "waited_for_storage") => "Time that a training waited for the store, in seconds.",
        (_, "waited_for_decode") => "Time that a training waited for decoding, in seconds.",
        (_, "trained") => "Time that a training computed, in seconds.",
        (_, "sql") => "Query of the expectation.",
        (_, "value") => "Value that the query gave; missing if it failed.",
        (_, "wanted") => "Wanted value.",
        (_, "held") => "True if the value was as wanted.",
        (_, "version") => "Version of the stage.",
        (_, "settings") => "Settings that the key depends on, as JSON: `settings->>'epochs'`.",
        (_, "bytes") => "Size in bytes.",
        (_, "pairloom") => "Version of Pairloom.",
        (_, "table_name") => "Name of the table.",
        (_, "part") => "Number of the part, from 0.",
        (_, "digest") => "BLAKE3 digest of the file.",
        (_, "subject") => "File or row that the warning is about.",
        (_, "message") => "Text of the warning.",
        _ => return None,
    })
}
