//! Build of the process that sends a plan, as a setting of its session.
//!
//! Ballista sends the settings of a session with each plan and task, and compares its own major version only.

use std::any::Any;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::{config_err, exec_err};
use datafusion::error::Result;
use datafusion::prelude::SessionConfig;

use crate::runtime::BUILD;

/// Name of the setting, after its prefix.
const BUILD_SETTING: &str = "build";

/// Build of the process that sends a plan: the hash of its sources, empty if it is unknown.
#[derive(Debug, Clone, Default)]
struct SenderBuild {
    build: String,
}

impl ConfigExtension for SenderBuild {
    const PREFIX: &'static str = "pairloom";
}

impl ExtensionOptions for SenderBuild {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        if key != BUILD_SETTING {
            return config_err!("got the setting `{key}`, wanted `{BUILD_SETTING}`");
        }
        value.clone_into(&mut self.build);
        Ok(())
    }

    // The macro of DataFusion for such settings leaves out the prefix.
    fn entries(&self) -> Vec<ConfigEntry> {
        vec![ConfigEntry {
            key: format!("{}.{BUILD_SETTING}", Self::PREFIX),
            value: Some(self.build.clone()),
            description: "hash of the sources of the program that sends a plan",
        }]
    }
}

/// Settings of a process that receives plans.
pub(super) fn receiving(config: SessionConfig) -> SessionConfig {
    config.with_option_extension(SenderBuild::default())
}

/// Settings of this process when it sends a plan.
pub(super) fn sending(config: SessionConfig) -> SessionConfig {
    config.with_option_extension(SenderBuild { build: BUILD.to_owned() })
}

/// Refuses a plan of another build.
///
/// # Errors
/// The settings are not those of a process of this build.
pub(super) fn check_sender(options: &ConfigOptions) -> Result<()> {
    let sender = options.extensions.get::<SenderBuild>().map_or("", |sender| &sender.build);
    if sender == BUILD {
        return Ok(());
    }
    let sender =
        if sender.is_empty() { "a build that it does not name".to_owned() } else { format!("the build {sender}") };
    exec_err!(
        "got a message of {sender}, wanted the build {BUILD}: all processes of a cluster need one build of Pairloom, which \
         `pairloom --version` shows"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plans_of_this_build_are_taken() {
        let received = |sent: &[(&str, &str)]| {
            let mut config = receiving(SessionConfig::new());
            for (key, value) in sent {
                config.options_mut().set(key, value).unwrap();
            }
            check_sender(config.options())
        };
        let sent = sending(SessionConfig::new()).options().entries();
        let sent = sent.iter().find(|entry| entry.key.starts_with("pairloom")).unwrap();
        assert_eq!((sent.key.as_str(), sent.value.as_deref()), ("pairloom.build", Some(BUILD)));
        received(&[("pairloom.build", BUILD)]).unwrap();
        let other = received(&[("pairloom.build", "0123456789abcdef")]).unwrap_err().to_string();
        assert!(other.contains("the build 0123456789abcdef") && other.contains(BUILD), "{other}");
        let none = received(&[]).unwrap_err().to_string();
        assert!(none.contains("a build that it does not name"), "{none}");
    }
}
