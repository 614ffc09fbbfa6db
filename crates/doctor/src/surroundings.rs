//! What commands will see of the person's surroundings: which variables are passed on, which are set, and which are
//! withheld because they hold a secret. Values are never shown.

use std::collections::BTreeMap;

use super::{Area, DoctorReport};
use ftl_settings::config::Config;
use ftl_settings::environment::CommandKind;

/// Looks at the variables that commands get.
pub(super) fn environment(config: &Config, found: &mut DoctorReport) {
    let environment = config.environment();
    let names = |kind: CommandKind| -> Vec<String> {
        let all = environment.of_command(kind);
        all.into_iter().map(|(name, _)| name.to_string_lossy().into_owned()).collect()
    };
    let common = names(CommandKind::Sh);
    let mut text = format!("commands see {}", common.join(", "));
    let mut own: BTreeMap<Vec<String>, Vec<&str>> = BTreeMap::new();
    for kind in CommandKind::ALL {
        let more: Vec<String> = names(kind).into_iter().filter(|name| !common.contains(name)).collect();
        if !more.is_empty() {
            own.entry(more).or_default().push(kind.word());
        }
    }
    for (more, kinds) in own {
        text.push_str(&format!("; {} also {}", kinds.join(", "), more.join(", ")));
    }
    found.fine(Area::Environment, text);
    for one in environment.withheld(&|name| std::env::var_os(name)) {
        let text = format!(
            "{} holds a secret, so that commands do not get it, although {} would pass it on",
            one.name, one.by
        );
        let hint =
            format!("if they need it: pass = [\"{}\"] under [environment] in .ftl/config.toml", one.name);
        found.look(Area::Environment, text, hint);
    }
}
