package record

// StreamState is what a server says of a stream.
type StreamState struct {
	Stream      string
	Created     int64 // Unix nanoseconds
	Now         int64 // by the server's clock, Unix nanoseconds
	First, Last uint64
	Messages    uint64
	Bytes       uint64
	Limit       int64  // bytes; 0 = none
	Deleted     uint64 // sequences between First and Last that it does not hold
	Lost        int    // messages that the server knows it has lost, and their bytes
	LostBytes   uint64
}
