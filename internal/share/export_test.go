package share

// Owned is owned.
var Owned = owned
