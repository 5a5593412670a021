//! Arguments of the process, and tips about wrong ones.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};

use super::args::Cli;
use super::schemas::pipeline_schema;

/// Parses the arguments of the process. Ends it with exit code 2 if they are wrong.
pub(super) fn parse() -> Cli {
    let arguments: Vec<String> = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    Cli::try_parse().unwrap_or_else(|error| with_tip(with_plain_usage(error, &arguments)).exit())
}

/// Replaces the usage line of an error by that of `--help`.
///
/// clap lists every option that has a value there, also one from its default or a variable, as if it had to be given.
fn with_plain_usage(mut error: clap::Error, arguments: &[String]) -> clap::Error {
    if error.get(ContextKind::Usage).is_none() {
        return error;
    }
    let mut command = Cli::command();
    command.build();
    let named = arguments.iter().skip(1).find_map(|name| command.find_subcommand(name)).cloned();
    let usage = named.unwrap_or(command).render_usage();
    error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    error
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
        let arguments: Vec<String> =
            std::iter::once("pairloom").chain(arguments.iter().copied()).map(str::to_owned).collect();
        let error = Cli::try_parse_from(&arguments).expect_err("wrong arguments");
        with_tip(with_plain_usage(error, &arguments)).to_string()
    }

    #[test]
    fn the_usage_line_has_what_must_be_given_and_nothing_else() {
        for (arguments, usage) in [
            (&["run"][..], "Usage: pairloom run [OPTIONS] <FILE>\n"),
            (&["run", "p.toml", "--stor", "x"], "Usage: pairloom run [OPTIONS] <FILE>\n"),
            (&["--store", "x", "check"], "Usage: pairloom check [OPTIONS] <FILES>...\n"),
            (&["rnu"], "Usage: pairloom [OPTIONS] <COMMAND>\n"),
        ] {
            let text = message(arguments);
            assert!(text.contains(usage), "{text}");
        }
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
