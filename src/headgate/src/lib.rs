//! Puts pods into AWS target groups the moment they have an IP, and takes them out before they end.
