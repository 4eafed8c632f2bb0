// Package family has the parents of errors: what a caller who knows nothing else of an error can do about it. An error of a package is
// of a family and says what it is by itself; errors.Is finds both. The HTTP API answers by families, and pkg/client exports them.
package family

// Family is the parent of errors, and an error itself.
type Family struct{ text string }

func (f *Family) Error() string { return f.text }

// The families.
var (
	NotFound    = &Family{"not found"}          // there is none, or not any more
	Conflict    = &Family{"conflict"}           // what is there forbids it
	Invalid     = &Family{"invalid"}            // what was asked means nothing, whatever is there
	Denied      = &Family{"permission denied"}  // this user may not
	Unavailable = &Family{"unavailable"}        // not now: the same may be tried again
	Damaged     = &Family{"damaged or unknown"} // what is stored cannot be read: an operator has to look
)

// New is an error of the family, with a text of its own.
func (f *Family) New(text string) error { return &child{text, f} }

type child struct {
	text string
	of   *Family
}

func (c *child) Error() string { return c.text }
func (c *child) Unwrap() error { return c.of }
