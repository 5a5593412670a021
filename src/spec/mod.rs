pub mod stages;
