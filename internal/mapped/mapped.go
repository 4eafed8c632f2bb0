// Package mapped makes lists of lists.
package mapped

// List is what f makes of each member, in their order.
func List[In, Out any](list []In, f func(In) Out) []Out {
	out := make([]Out, len(list))
	for i, in := range list {
		out[i] = f(in)
	}
	return out
}
