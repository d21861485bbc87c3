//! Whole worlds, started, killed and taken down.
