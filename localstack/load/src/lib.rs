//! An open-loop load generator that accounts for every request.
