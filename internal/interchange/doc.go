// Package interchange exchanges sessions with harnesses, in the directories in which they keep them.
//
// Materializer writes the files of a session of any of them byte for byte as they were imported, and of oh-my-pi as
// Exporter does. Those have more beside their files (seeds 000, 002; SPEC S12):
//
//	<dir>/blobs/<sha256>                                images, and entries as they were before a cut
//	<dir>/sessions/<cwd>/<time>_<id>.jsonl              the main thread: entries as they are stored, images as blob refs
//	<dir>/sessions/<cwd>/<time>_<id>.spool.json         what Spool needs to give entries and artifacts back as they were; not the program's
//	<dir>/sessions/<cwd>/<time>_<id>/<n>.<tool>.log     artifacts, under their file names
//	<dir>/sessions/<cwd>/<time>_<id>/<agent>.md         outputs of subagents, and their threads beside them:
//	<dir>/sessions/<cwd>/<time>_<id>/<agent>.jsonl
//
//	export   Exporter.Session: threads, blobs, artifacts ─▶ <dir>
//	import   package transcript reads the session files; Blobs brings what they refer to, Restore undoes what an export did to
//	         an entry, Artifacts registers the rest
//
// What was exported and is imported into an empty system has the same nodes as before: entries keep their lines, and what the
// size rules moved or cut is put back before the entry is taken in. The program itself ignores the .spool.json file; without
// it, and for entries that the program has changed, an entry counts as it stands in the file.
package interchange
