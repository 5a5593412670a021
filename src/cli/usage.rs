//! Arguments of the process, and tips about wrong ones.

use clap::Parser;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::args::Cli;
use super::schemas::pipeline_schema;

/// Parses the arguments of the process. Ends it with exit code 2 if they are wrong.
pub(super) fn parse() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| with_tip(error).exit())
}

/// Adds a tip to an error of clap about an argument that should be another one.
fn with_tip(mut error: clap::Error) -> clap::Error {
    let got = |kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(" "),
        _ => String::new(),
    };
    let argument = got(ContextKind::InvalidArg);
    let setting = argument.trim_start_matches('-').split('=').next().unwrap_or_default().replace('-', "_");
    let is_setting = pipeline_schema().contains(&format!("\"{setting}\": {{"));
    let tip = match error.kind() {
        ErrorKind::UnknownArgument if argument.contains('=') && !argument.starts_with('-') => {
            format!("a setting is overridden by `--set {argument}`")
        }
        ErrorKind::UnknownArgument if argument.starts_with("--") && is_setting => {
            error.remove(ContextKind::SuggestedArg);
            format!("a setting of the pipeline file is overridden by `--set stage.NAME.KIND.{setting}=VALUE`")
        }
        ErrorKind::MissingRequiredArgument if argument.contains("<FILE") => {
            "name a pipeline file, such as `pipelines/quickstart.toml`".to_owned()
        }
        _ => return error,
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(arguments: &[&str]) -> String {
        let arguments = std::iter::once("pairloom").chain(arguments.iter().copied());
        with_tip(Cli::try_parse_from(arguments).expect_err("wrong arguments")).to_string()
    }

    #[test]
    fn wrong_arguments_are_answered_with_a_tip() {
        let tip = |arguments: &[&str], tip: &str| {
            let text = message(arguments);
            assert!(text.contains(&format!("\n  tip: {tip}\n")), "{text}");
        };
        tip(&["run", "p.toml", "seed=3"], "a setting is overridden by `--set seed=3`");
        tip(
            &["run", "p.toml", "--batch-size", "3"],
            "a setting of the pipeline file is overridden by `--set stage.NAME.KIND.batch_size=VALUE`",
        );
        tip(&["run"], "name a pipeline file, such as `pipelines/quickstart.toml`");
        tip(&["check"], "name a pipeline file, such as `pipelines/quickstart.toml`");
        tip(&["run", "p.toml", "--stor", "x"], "a similar argument exists: '--store'");
        tip(&["rnu"], "a similar subcommand exists: 'runs'");
        assert!(message(&["run", "p.toml", "--memory", "10"]).contains("did you mean `10MiB`?"));
    }
}
