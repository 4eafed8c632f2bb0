package natsio

// LastOfEach is lastOfEach.
var LastOfEach = Objects.lastOfEach
