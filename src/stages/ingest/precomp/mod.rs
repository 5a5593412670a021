//! `*_precomp` folders: `{train,dev,test,testall}_{ims.npy,caps.txt,ids.txt}`.
//!
//! Format: the folders published with VSE++ (Faghri et al., BMVC 2018) and read alike by the repositories after it.

mod read;
mod files;

pub(super) use read::run;
