//! Build and store of the process that sends a plan, as settings of its session.
//!
//! Ballista sends the settings of a session with each plan and task, and compares its own major version only.

use std::any::Any;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::config_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::SessionConfig;

use pairloom_base::error::Error;
use pairloom_base::runtime::build;

/// Names of the settings, after their prefix.
const BUILD_SETTING: &str = "build";
const STORE_SETTING: &str = "store";

/// Process that sends a plan.
#[derive(Debug, Clone, Default)]
struct PlanSender {
    /// Hash of its sources; empty if it is unknown.
    build: String,
    /// Id of its store; empty if it has none.
    store: String,
}

impl ConfigExtension for PlanSender {
    const PREFIX: &'static str = "pairloom";
}

impl ExtensionOptions for PlanSender {
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
        match key {
            BUILD_SETTING => value.clone_into(&mut self.build),
            STORE_SETTING => value.clone_into(&mut self.store),
            _ => return config_err!("got the setting `{key}`, expected `{BUILD_SETTING}` or `{STORE_SETTING}`"),
        }
        Ok(())
    }

    // The macro of DataFusion for such settings leaves out the prefix.
    fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |name, value: &String, description| ConfigEntry {
            key: format!("{}.{name}", Self::PREFIX),
            value: Some(value.clone()),
            description,
        };
        vec![
            entry(BUILD_SETTING, &self.build, "hash of the sources of the program that sends a plan"),
            entry(STORE_SETTING, &self.store, "id of the store of the program that sends a plan"),
        ]
    }
}

/// Settings of a process that receives plans.
pub(super) fn receiving(config: SessionConfig) -> SessionConfig {
    config.with_option_extension(PlanSender::default())
}

/// Settings of this process when it sends a plan over the tables of a store, whose id is empty without one.
pub(super) fn sending(config: SessionConfig, store: &str) -> SessionConfig {
    config.with_option_extension(PlanSender { build: build().to_owned(), store: store.to_owned() })
}

/// Id of the store of the process that sent a plan; empty if it named none.
pub(super) fn store_of_sender(options: &ConfigOptions) -> &str {
    options.extensions.get::<PlanSender>().map_or("", |sender| &sender.store)
}

/// Refuses a plan of another build.
///
/// # Errors
/// The settings are not those of a process of this build.
pub(super) fn check_sender(options: &ConfigOptions) -> Result<()> {
    let sender = options.extensions.get::<PlanSender>().map_or("", |sender| &sender.build);
    if sender == build() {
        return Ok(());
    }
    let sender =
        if sender.is_empty() { "a build that it does not name".to_owned() } else { format!("the build {sender}") };
    let message = format!(
        "got a message of {sender}, expected the build {}: all processes of a cluster need one build of Pairloom, which \
         `pairloom --version` shows",
        build()
    );
    Err(DataFusionError::External(Box::new(Error::stage(message))))
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
        let sent = sending(SessionConfig::new(), "1f").options().entries();
        let sent: Vec<_> = sent.iter().filter(|entry| entry.key.starts_with("pairloom")).collect();
        let sent: Vec<_> = sent.iter().map(|entry| (entry.key.as_str(), entry.value.as_deref())).collect();
        assert_eq!(sent, [("pairloom.build", Some(build())), ("pairloom.store", Some("1f"))]);
        received(&[("pairloom.build", build())]).unwrap();
        let other = received(&[("pairloom.build", "0123456789abcdef")]).unwrap_err().to_string();
        assert!(other.contains("the build 0123456789abcdef") && other.contains(build()), "{other}");
        let none = received(&[]).unwrap_err().to_string();
        assert!(none.contains("a build that it does not name"), "{none}");
    }
}
