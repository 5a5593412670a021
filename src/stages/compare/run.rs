//! Chooses the measure.

use super::settings::{Compare, CompareForm, Measure};
use super::{cider, pairs, spice};
use crate::error::Result;
use crate::kernels::text::cider::Form;
use crate::stage::{Cx, Run};

use super::corpus::Corpus;
use super::rows::Rows;

impl Run for Compare {
    fn run(&self, cx: &mut Cx<'_>) -> Result<()> {
        match &self.measure {
            Measure::CiderD(settings) => cider::run(self, Form::CiderD, settings, cx),
            Measure::Cider(settings) => cider::run(self, Form::Cider, settings, cx),
            Measure::Spice(settings) => spice::run(self, settings, cx),
        }
    }
}

impl Compare {
    /// Which rows the form asks for; `None` for none.
    pub(super) fn rows(&self, cx: &mut Cx<'_>, corpus: &Corpus) -> Result<Option<Rows>> {
        Ok(match &self.form {
            CompareForm::Dense => Some(Rows::Dense),
            CompareForm::Top(m) => Some(Rows::Top(*m)),
            CompareForm::Pairs(_) => Some(Rows::Pairs(pairs::read(cx, corpus, &self.split)?)),
            CompareForm::OnDemand => None,
        })
    }
}
