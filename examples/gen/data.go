package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"strings"
	"time"
	"unicode/utf16"
)

// random is a small generator of its own, so that the data never changes with a library.
type random uint32

func (r *random) below(n int) int {
	*r = *r*1664525 + 1013904223
	return int(uint32(*r)>>8) % n
}

var varieties = []string{"Bramley", "Egremont Russet", "Conference", "Opal", "Victoria", "Boskoop"}

// readings is a station export of more than 350,000 bytes, in which row 06 blooms thirty hours before the others.
func readings() string {
	var b strings.Builder
	b.WriteString("time,station,variety,temp_c,humidity,bloom_pct\n")
	r := random(7)
	t := time.Date(2026, 3, 20, 6, 0, 0, 0, time.UTC)
	for row := 0; b.Len() < 362_000; row++ {
		temp := 20 + r.below(160)
		hours := row/24 - 60
		if row%24 == 5 {
			hours += 30 // row 06 stands along the south wall
		}
		fmt.Fprintf(&b, "%s,row-%02d,%s,%d.%d,%d,%d\n", t.Format("2006-01-02T15:04"), 1+row%24, varieties[r.below(len(varieties))],
			temp/10, temp%10, 45+r.below(50), max(0, hours/3))
		if row%24 == 23 {
			t = t.Add(time.Hour)
		}
	}
	return b.String()
}

var fruit = []string{"🍎", "🍐", "🍒", "🍑", "🌳", "🐝"}

var remarks = []string{
	"picked before the rain, %d crates, sound skins", "thinned to one fruit a cluster, %d clusters done",
	"codling moth trap emptied, %d caught", "hive two is strong, %d frames of brood",
	"ladder %d needs a new rung", "scab on %d leaves, windward side only", "windfalls gathered, %d kg for the press",
}

// journal is an orchard's diary of more than 500,000 UTF-16 code units, with characters that take two of them.
func journal() string {
	var b strings.Builder
	r := random(11)
	day := time.Date(2019, 1, 5, 0, 0, 0, 0, time.UTC)
	for units := 0; units < 508_000; {
		entry := fmt.Sprintf("%s %s row %d, %s: %s\n", day.Format("2006-01-02"), fruit[r.below(len(fruit))], 1+r.below(24),
			varieties[r.below(len(varieties))], fmt.Sprintf(remarks[r.below(len(remarks))], 1+r.below(40)))
		b.WriteString(entry)
		units += len(utf16.Encode([]rune(entry)))
		day = day.Add(time.Duration(6+r.below(12)) * time.Hour)
	}
	return b.String()
}

// chart is a PNG of a bloom curve over a speckled sky, as base64. seed moves the curve.
func chart(seed int) string {
	const width, height = 96, 56
	img := image.NewRGBA(image.Rect(0, 0, width, height))
	r := random(seed)
	for x := range width {
		top := height - 6 - (x*x/260 + seed%7) // the curve
		for y := range height {
			shade := uint8(r.below(24))
			c := color.RGBA{200 + shade, 220 + shade, 231 + shade, 255}
			if y > top {
				c = color.RGBA{225 + shade, 140 + shade, 160 + shade, 255}
			}
			img.SetRGBA(x, y, c)
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		panic(err) // an in-memory picture always encodes
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}
