package record

import "time"

// StreamState is what a server says of a stream.
type StreamState struct {
	Stream      string
	Store       string // the store that it says it is of; empty: nobody marked it
	Created     int64  // Unix nanoseconds
	Now         int64  // by the server's clock, Unix nanoseconds
	First, Last uint64
	Messages    uint64
	Bytes       uint64
	Newest      int64         // when its newest message was stored, Unix nanoseconds
	Limit       int64         // bytes; 0 = none
	MaxAge      time.Duration // 0 = none
	Deleted     uint64        // sequences between First and Last that it does not hold
	Lost        int           // messages that the server knows it has lost, and their bytes
	LostBytes   uint64
}
