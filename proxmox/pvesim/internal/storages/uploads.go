package storages

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"regexp"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/api"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

//nolint:gosec // the API offers it
//nolint:gosec // the API offers it

// copyTakes is how long a storage takes for a file, besides what its size takes.
const (
	copyTakes       = time.Second / 2
	copiedPerSecond = 200 << 20
)

var unsafeInName = regexp.MustCompile(`[^a-zA-Z0-9_.-]`)

// fileName is how the server writes a file's name: without folders, and without odd letters.
func fileName(name string) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	return unsafeInName.ReplaceAllString(name, "_")
}

// newFile checks what is to become a file on a storage.
func (k *call) newFile(h *world.Node, refused, wrongContent string) (*world.Store, *world.Volume, error) {
	s, err := k.usable(h)
	if err != nil {
		return nil, nil, err
	}
	if !s.Files() {
		return nil, nil, failure.New(refused, s.Type)
	}
	content, name := k.In["content"], fileName(k.In["filename"])
	if !world.Extensions[content].MatchString(name) {
		why := "wrong file extension"
		if content == "import" {
			why = "invalid filename or wrong extension"
		}
		return nil, nil, failure.OfParameter("filename", why)
	}
	if !s.Keeps(content) {
		return nil, nil, failure.New(wrongContent, s.Name, content)
	}
	format := strings.TrimPrefix(world.Extensions[content].FindString(name), ".")
	if content == "iso" || content == "vztmpl" {
		format = map[string]string{"iso": "iso", "vztmpl": "t" + strings.TrimPrefix(format, "tar.")}[content]
	}
	return s, &world.Volume{Name: content + "/" + name, Content: content, Format: format}, nil
}

// upload puts a file on a storage. It comes to the host that is asked, which copies it to the one
// that is named and has the task.
func upload(k *call) (any, error) {
	target := k.Entry
	if name := k.In["node"]; name != "localhost" {
		target = k.World.Node(name)
	}
	if target == nil {
		return nil, api.NoSuchHost(k.In["node"])
	}
	s, v, err := k.newFile(target, "can't upload to storage type '%s'", "storage '%s' does not support '%s' content")
	if err != nil {
		return nil, err
	}
	if k.File == nil {
		return nil, failure.New("missing temporary file name")
	}
	if !k.World.Connects(k.Entry, target) {
		return nil, failure.New("can't activate storage '%s' on node '%s': command '/usr/bin/ssh -- %s' failed: exit code 255", s.Name, target.Name, target.IP)
	}
	v.Data, v.Size = k.File, int64(len(k.File))
	tmp := "/var/tmp/pveupload-" + strings.ReplaceAll(k.World.Access.UUID(fmt.Sprint("upload ", k.World.Clock, k.Entry.PIDs)), "-", "")
	sum, algorithm := k.In["checksum"], k.In["checksum-algorithm"]
	return k.World.Work(k.Entry, k.Who, "imgcopy", "", func(j *world.Errand) error {
		j.Print("starting file import from: %s", tmp)
		if err := checkSum(j, v.Data, algorithm, sum); err != nil {
			return err
		}
		j.Print("target node: %s", target.Name)
		j.Print("target file: %s", s.Path(v.Name))
		j.Print("file size is: %d", v.Size)
		if target == k.Entry {
			j.Print("command: cp -- %s %s", tmp, s.Path(v.Name))
		} else {
			j.Print("command: /usr/bin/scp -o BatchMode=yes -p -- %s [%s]:%s", tmp, target.IP, s.Path(v.Name))
		}
		if err := store(j, target, s, v); err != nil {
			return failure.New("import failed: %s", failure.Text(err))
		}
		j.Print("finished file import successfully")
		return nil
	}).UPID, nil
}

// checkSum refuses a file that is not what its sender thinks.
func checkSum(j *world.Errand, data []byte, algorithm, want string) error {
	if algorithm == "" {
		return nil
	}
	h := map[string]func() hash.Hash{
		"md5": md5.New, "sha1": sha1.New, "sha224": sha256.New224, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New,
	}[algorithm]()
	h.Write(data)
	got := hex.EncodeToString(h.Sum(nil))
	if !strings.EqualFold(got, want) {
		j.Print("calculating checksum...")
		return failure.New("checksum mismatch: got '%s' != expect '%s'", got, want)
	}
	j.Print("calculating checksum...OK, checksum verified")
	return nil
}

// store copies a file to a storage, over one that is there.
func store(j *world.Errand, h *world.Node, s *world.Store, v *world.Volume) error {
	if err := j.Pause(copyTakes + time.Duration(float64(v.Size)/copiedPerSecond*float64(time.Second))); err != nil {
		return err
	}
	before := s.At(h)[v.Name]
	room := s.Room(h)
	if before != nil {
		room += before.Size
	}
	if v.Size > room || s.Filled[s.Place(h)] > 0 {
		return failure.New("cp: error writing '%s': No space left on device", s.Path(v.Name))
	}
	v.At = j.World.Clock
	s.At(h)[v.Name] = v
	return nil
}

// download has a host fetch a file. The emulated hosts reach nothing, and say so as real ones do
// that are behind a firewall.
func download(k *call) (any, error) {
	s, v, err := k.newFile(k.Node, "can't upload to storage type '%s', not a file based storage!", "storage '%s' is not configured for content-type '%s'")
	if err != nil {
		return nil, err
	}
	url := k.In["url"]
	return k.Task("download", strings.TrimPrefix(v.Name, v.Content+"/"), func(j *world.Errand) error {
		j.Print("downloading %s to %s", url, s.Path(v.Name))
		if err := j.Pause(connectTakes); err != nil {
			return err
		}
		return failure.New("download failed: command 'wget --progress=dot:giga -O %s.tmp_dwnl.%d %s' failed: exit code 4", s.Path(v.Name), j.Task.PID, url)
	}), nil
}

// connectTakes is until a host gives up to reach a server.
const connectTakes = 3 * time.Second
