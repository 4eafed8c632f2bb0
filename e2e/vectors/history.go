package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"spool/internal/history"
	"spool/pkg/events"
)

func init() { groups["history"] = historyVectors }

// historyVectors stores prompts and asks for them (SPEC S11).
func historyVectors(dir string, report func(Case)) error {
	return eachExpected(dir, func(expected map[string]any) error { return historyCases(expected, report) })
}

func historyCases(expected map[string]any, report func(Case)) error {
	tmp, err := os.MkdirTemp("", "spool-vectors-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	return history.With(filepath.Join(tmp, "history.db"), func(db *history.DB) error {
		adds, err := memberAs[[]any](expected, "adds")
		if err != nil {
			return err
		}
		if err := addPrompts(db, adds); err != nil {
			return err
		}
		for key, want := range expected {
			switch limit, isRecent := strings.CutPrefix(key, "recent"); {
			case isRecent:
				if limit == "" {
					limit = strconv.Itoa(history.MaxLimit)
				}
				found, err := db.Recent(context.Background(), history.Filter{}, limitOf(limit))
				report(Case{Name: key, Got: promptsOf(found, err), Want: want})
			case key == "limits":
				err = limitCases(db, want, report)
			case key == "search":
				err = searchCases(db, want, report)
			case key == "searchLimit1":
				found, err := db.Search(context.Background(), "commit", history.Filter{}, 1)
				report(Case{Name: key, Got: promptsOf(found, err), Want: want})
			case key != "version" && key != "adds":
				report(Case{Name: key, Got: "not supported", Want: want})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// addPrompts stores prompts as one thread has them, all at one time.
func addPrompts(db *history.DB, adds []any) error {
	var b history.Batch
	for i, add := range adds {
		text, _ := add.(string)
		b.Posts = append(b.Posts, history.Post{Thread: events.Thread{Session: "s", Name: events.MainThread}, N: int64(i + 1), Text: text})
	}
	return db.Apply(context.Background(), b)
}

func limitCases(db *history.DB, cases any, report func(Case)) error {
	list, _ := cases.([]any)
	for _, c := range list {
		limit, err := memberAs[string](c, "limit")
		if err != nil {
			return err
		}
		found, err := db.Recent(context.Background(), history.Filter{}, limitOf(limit))
		if err != nil {
			return err
		}
		report(Case{Name: "limit " + limit, Got: mustJSON(strconv.AppendInt(nil, int64(len(found)), 10)), Want: c.(map[string]any)["n"]})
	}
	return nil
}

func searchCases(db *history.DB, cases any, report func(Case)) error {
	list, _ := cases.([]any)
	for _, c := range list {
		query, err := memberAs[string](c, "q")
		if err != nil {
			return err
		}
		found, err := db.Search(context.Background(), query, history.Filter{}, history.MaxLimit)
		report(Case{Name: fmt.Sprintf("search %q", query), Got: promptsOf(found, err), Want: c.(map[string]any)["hits"]})
	}
	return nil
}

// limitOf is a limit as JavaScript spells it. What is no finite number is none.
func limitOf(s string) int {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return int(math.Max(math.MinInt32, math.Min(math.MaxInt32, math.Floor(v))))
}

func promptsOf(found []history.Prompt, err error) any {
	if err != nil {
		return err.Error()
	}
	out := []any{}
	for _, p := range found {
		out = append(out, p.Text)
	}
	return out
}
