// Package service wires what the layers below decide: configuration, logging, signals, and the start and end of each
// daemon. `spool up` and the daemons in cmd share all of it.
package service
