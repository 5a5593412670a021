//! Check of the profiles that the command line does not choose.

use super::connect::connect_stages;
use super::diagnostic::Diagnostic;
use super::instance_names::without_coordinates;
use super::matrix::{Combinations, Covered, Expansion, Profile};
use super::schema_check::SchemaChecker;
use super::sources::SourceVariables;
use super::stage_check::{PipelineStage, check_stage};

/// Mistakes in profiles that are not chosen, as far as they stand in the profile itself.
///
/// A profile is used with instances that cover all rows of the matrix and all instances that it names. `expansion` is
/// that of the file, and `all` has the combinations of its matrix.
pub(super) fn check_other_profiles<'p, S: PipelineStage>(
    checker: &SchemaChecker<'_>,
    expansion: &Expansion<'_>,
    profiles: impl Iterator<Item = &'p Profile>,
    all: &Combinations,
) -> Vec<Diagnostic> {
    let of_profile = |profile: &Profile| {
        let expansion = Expansion { profile, assignments: &[], ..*expansion };
        let mut found = Vec::new();
        expansion.check_stages_of_profile(&mut found);
        expansion.check_instances_of_profile(all, &mut found);
        let covering = all.covering(expansion.matrix, Covered::NamedRows, &expansion.instances_of_profile());
        let instances = expansion.expand(&covering, &mut found);
        let mut own = SchemaChecker {
            sources_needed: false,
            seed: checker.seed.clone(),
            stage: String::new(),
            variables: SourceVariables::default(),
            references: Vec::new(),
            dropped: Vec::new(),
            diagnostics: found,
            ..*checker
        };
        let stages: Vec<_> = instances.into_iter().map(|instance| check_stage::<S>(&mut own, instance)).collect();
        let SchemaChecker { references, mut diagnostics, .. } = own;
        connect_stages(&stages, checker.source_map, &references, &[], &mut diagnostics);
        let spans = profile.spans();
        diagnostics.retain(|diagnostic| !diagnostic.is_warning() && spans.contains(&diagnostic.span));
        without_coordinates(diagnostics, &stages)
    };
    profiles.flat_map(of_profile).collect()
}
