package main

// eachValue calls f for every value of a decoded document, the inner ones after those that hold them. at is valid during
// the call.
func eachValue(v any, at place, f func(v any, at place)) {
	f(v, at)
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			eachValue(e, append(at, k), f)
		}
	case []any:
		for i, e := range v {
			eachValue(e, append(at, i), f)
		}
	}
}

// valueAt is the value at a place, nil if there is none.
func valueAt(v any, at place) any {
	for _, step := range at {
		switch in := v.(type) {
		case map[string]any:
			key, _ := step.(string)
			v = in[key]
		case []any:
			i, ok := step.(int)
			if !ok || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}

// setAt replaces the value at a place, if there is one.
func setAt(v any, at place, to any) {
	if len(at) == 0 {
		return
	}
	switch in := valueAt(v, at[:len(at)-1]).(type) {
	case map[string]any:
		if key, ok := at[len(at)-1].(string); ok {
			in[key] = to
		}
	case []any:
		if i, ok := at[len(at)-1].(int); ok && i < len(in) {
			in[i] = to
		}
	}
}

// clone copies a decoded document.
func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = clone(e)
		}
		return m
	case []any:
		a := make([]any, len(v))
		for i, e := range v {
			a[i] = clone(e)
		}
		return a
	}
	return v
}
