//! From a pc to an object, and from an object's address to a name.
