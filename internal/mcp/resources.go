package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spool/pkg/client"
	"spool/pkg/events"
)

// uriPrefix begins the URI of every resource; the id of its session follows.
const uriPrefix = "spool://session/"

func sessionURI(session string) string { return uriPrefix + session }

// itemURI is that of an item of a thread; with 0 that of the thread.
func itemURI(t events.Thread, n int64) string {
	uri := sessionURI(t.Session) + "/thread/" + t.Name
	if n > 0 {
		uri += "/item/" + strconv.FormatInt(n, 10)
	}
	return uri
}

func artifactURI(session, name string) string {
	return sessionURI(session) + "/artifact/" + url.PathEscape(name)
}

// addResources adds templates for what the tools give, under the URIs that they name. Each resource is what its tool
// answers to a call with nothing else, and has its bounds.
func (p *peer) addResources(s *sdk.Server) {
	type reader = func(ctx context.Context, part []string) (any, error)
	for _, r := range []struct {
		name, uri, about string
		read             reader
	}{
		{"session", "{session}", "A session with its threads, and what waits in it.", p.sessionAt},
		{"thread", "{session}/thread/{thread}", "The newest items of a thread.",
			func(ctx context.Context, part []string) (any, error) {
				return p.readThread(ctx, threadIn{Session: part[0], Thread: part[2]})
			}},
		{"item", "{session}/thread/{thread}/item/{n}", "An item, and what it says.",
			func(ctx context.Context, part []string) (any, error) { return p.itemAt(ctx, part[0], part[2], part[4]) }},
		{"main-item", "{session}/item/{n}", "An item of the session's main thread.",
			func(ctx context.Context, part []string) (any, error) { return p.itemAt(ctx, part[0], "", part[2]) }},
		{"artifact", "{session}/artifact/{artifact}", "An artifact by its number or id, or an agent's output: its beginning.",
			func(ctx context.Context, part []string) (any, error) {
				return p.readArtifact(ctx, artifactIn{Session: part[0], Artifact: part[2]})
			}},
	} {
		const kind = "application/json"
		s.AddResourceTemplate(&sdk.ResourceTemplate{Name: r.name, URITemplate: uriPrefix + r.uri, Description: r.about, MIMEType: kind},
			func(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
				parts, err := partsOf(req.Params.URI)
				var out any
				if err == nil {
					out, err = r.read(ctx, parts)
				}
				var b []byte
				if err == nil {
					b, err = json.Marshal(out)
				}
				if err != nil { // a resource has no result that is an error: the protocol's says what is wrong
					said := snippet(req.Params.URI+": "+err.Error(), mostError)
					return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: said}
				}
				content := &sdk.ResourceContents{URI: req.Params.URI, MIMEType: kind, Text: string(b)}
				return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{content}}, nil
			})
	}
}

// partsOf are the names in a URI, unescaped: the session, then words and names in turn.
func partsOf(uri string) ([]string, error) {
	parts := strings.Split(strings.TrimPrefix(uri, uriPrefix), "/")
	for i, part := range parts {
		var err error
		if parts[i], err = url.PathUnescape(part); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

func (p *peer) itemAt(ctx context.Context, session, thread, number string) (any, error) {
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%.40q is no number of an item", number)
	}
	return p.readItem(ctx, itemIn{Session: session, Thread: thread, N: n})
}

// sessionAt is a session as list_sessions tells it.
func (p *peer) sessionAt(ctx context.Context, part []string) (any, error) {
	id, err := p.session(ctx, part[0])
	if err != nil {
		return nil, err
	}
	all, err := p.view.Sessions(ctx, id)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%w: %s", client.ErrSessionNotFound, id)
	}
	if err != nil {
		return nil, err
	}
	return ofSession(all[0]), nil
}
