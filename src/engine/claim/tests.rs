//! Rights at a URL: who gets them, keeps them, loses them.
