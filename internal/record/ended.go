package record

// EncodeEnded is the value of the record that says up to which sequence removed records of outputs are forgotten.
func EncodeEnded(upTo uint64) []byte { return encode(version, upTo) }

// Ended is what that record says: what is there of an output at or below it ended, and a server that was killed brought it back
// (docs/adr/0031). 0: nothing is forgotten, or nobody can tell.
func Ended(r Record) uint64 {
	v := open("ended", r.Value, 2)
	upTo := uint64(v.int())
	if !r.Exists() || v.err != nil || upTo >= r.Seq {
		return 0
	}
	return upTo
}
