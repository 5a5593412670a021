//! Reader of `precomp`: folders with the files `{train,dev,test,testall}_{ims.npy,caps.txt,ids.txt}`.
//!
//! Format: the folders published with VSE++ (Faghri et al., BMVC 2018), which later repositories read in the same way.

mod read;
mod files;
mod caption_ids;

pub(super) use read::run;
