package threads

import "spool/pkg/casstore"

// fields counts the keys of the encoding.
func (r *Record) fields() int {
	n := 0
	for _, present := range []bool{
		r.Claimed != "", r.Dialect != "", !r.Full.IsZero(), r.ID != "", r.Index != 0, r.First != 0 || r.Count != 0,
		r.Kept != "", len(r.Memory) > 0, r.Projection != "", len(r.Raw) > 0, len(r.Splices) > 0, r.Type != "", r.User != "",
	} {
		if present {
			n++
		}
	}
	return n
}

// appendTo writes the map with its keys sorted.
func (r *Record) appendTo(p []byte, fields int) []byte {
	p = casstore.AppendMapHeader(p, fields)
	p = appendField(p, "claimed", r.Claimed)
	p = appendField(p, "dialect", r.Dialect)
	p = appendField(p, "full", r.Full.String())
	p = appendField(p, "id", r.ID)
	if r.Index != 0 {
		p = casstore.AppendInt(casstore.AppendString(p, "index"), r.Index)
	}
	if r.First != 0 || r.Count != 0 {
		p = casstore.AppendArrayHeader(casstore.AppendString(p, "items"), 2)
		p = casstore.AppendInt(casstore.AppendInt(p, r.First), r.Count)
	}
	p = appendField(p, "kept", r.Kept)
	if len(r.Memory) > 0 {
		p = casstore.AppendBin(casstore.AppendString(p, "memory"), r.Memory)
	}
	p = appendField(p, "projection", r.Projection)
	if len(r.Raw) > 0 {
		p = casstore.AppendBin(casstore.AppendString(p, "raw"), r.Raw)
	}
	if len(r.Splices) > 0 {
		p = casstore.AppendArrayHeader(casstore.AppendString(p, "splices"), len(r.Splices))
		for _, s := range r.Splices {
			p = casstore.AppendInt(casstore.AppendInt(casstore.AppendArrayHeader(p, 2), s[0]), s[1])
		}
	}
	p = appendField(p, "type", r.Type)
	return appendField(p, "user", r.User)
}

// appendField writes a text under a key, or nothing if it is empty.
func appendField(p []byte, key, text string) []byte {
	if text == "" {
		return p
	}
	return casstore.AppendText(casstore.AppendString(p, key), []byte(text))
}

// parseRecord reads the map; keys of a later writer are ignored.
func parseRecord(c *casstore.Cursor) (r Record) {
	for range c.Map() {
		switch c.String() {
		case "claimed":
			r.Claimed = string(c.Text())
		case "dialect":
			r.Dialect = string(c.Text())
		case "full":
			r.Full = refText(c)
		case "id":
			r.ID = string(c.Text())
		case "index":
			r.Index = c.Int()
		case "items":
			p := parsePair(c)
			r.First, r.Count = p[0], p[1]
		case "kept":
			r.Kept = string(c.Text())
		case "memory":
			r.Memory = c.Bin()
		case "projection":
			r.Projection = string(c.Text())
		case "raw":
			r.Raw = c.Bin()
		case "splices":
			r.Splices = parseSplices(c)
		case "type":
			r.Type = string(c.Text())
		case "user":
			r.User = string(c.Text())
		default:
			c.Value()
		}
	}
	return r
}

func parseSplices(c *casstore.Cursor) [][2]int64 {
	n := c.Array()
	if n == 0 {
		return nil
	}
	splices := make([][2]int64, n)
	for i := range splices {
		splices[i] = parsePair(c)
	}
	return splices
}

func parsePair(c *casstore.Cursor) (p [2]int64) {
	if c.Array() != 2 {
		c.Fail("want an array of two integers")
	}
	p[0] = c.Int()
	p[1] = c.Int()
	return p
}
