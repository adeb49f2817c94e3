package pveapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// StorageStatus is a storage as a host sees it.
type StorageStatus struct {
	Name, Type              string
	Shared, Active, Enabled bool
	Total, Used, Avail      int64 // meaningful if Sized
	Sized                   bool  // the host knows the sizes; one that is not active has none
	Content                 []string
}

// Storages returns the storages of a host that the token may see, sorted by name.
func (c *Client) Storages(ctx context.Context, node string) ([]StorageStatus, error) {
	path, err := onNode(http.MethodGet, node, "/storage")
	if err != nil {
		return nil, err
	}
	list, err := get[[]fields](ctx, c, path, nil)
	if err != nil {
		return nil, err
	}
	all := make([]StorageStatus, 0, len(list))
	for _, f := range list {
		s := StorageStatus{
			Name: f.text("storage"), Type: f.text("type"), Content: f.list("content"),
			Shared: f.is("shared"), Active: f.is("active"), Enabled: f.is("enabled"),
		}
		if total, used, avail := f.whole("total"), f.whole("used"), f.whole("avail"); total != nil && used != nil && avail != nil {
			s.Total, s.Used, s.Avail, s.Sized = *total, *used, *avail, *total > 0
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b StorageStatus) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// Volume is a disk or image on a storage.
type Volume struct {
	ID      string // local:iso/seed.iso, as the server names it
	Storage string // empty for a drive that is on none: none, or a device's path
	Name    string // iso/seed.iso
	Size    int64  // 0 if unknown
	Media   string // cdrom; of a machine's drives only
	Content string // iso, images; of a storage's list only
	VMID    int    // 0 if it belongs to no machine
	Created time.Time
}

// ParseVolume takes a volume's name apart.
func ParseVolume(id string) Volume {
	storage, name, found := strings.Cut(id, ":")
	if !found || strings.HasPrefix(id, "/") {
		return Volume{ID: id, Name: id}
	}
	return Volume{ID: id, Storage: storage, Name: name}
}

// Volumes returns what is on a storage, of one content if that is not empty and of one machine if
// vmid is not 0, sorted by name.
func (c *Client) Volumes(ctx context.Context, node, storage, content string, vmid int) ([]Volume, error) {
	path, err := onStorage(http.MethodGet, node, storage, "/content")
	if err != nil {
		return nil, err
	}
	query := url.Values{}
	if content != "" {
		query.Set("content", content)
	}
	if vmid != 0 {
		query.Set("vmid", strconv.Itoa(vmid))
	}
	list, err := get[[]fields](ctx, c, path, query)
	if err != nil {
		return nil, err
	}
	all := make([]Volume, 0, len(list))
	for _, f := range list {
		v := ParseVolume(f.text("volid"))
		v.Content, v.VMID = f.text("content"), f.count("vmid")
		if size := f.whole("size"); size != nil {
			v.Size = *size
		}
		if created := f.whole("ctime"); created != nil {
			v.Created = time.Unix(*created, 0)
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b Volume) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}

// DeleteVolume removes a volume. Where that is quick, there is no task.
func (c *Client) DeleteVolume(ctx context.Context, node, storage, volid string) (UPID, error) {
	path, err := onStorage(http.MethodDelete, node, storage, "/content/"+url.PathEscape(volid))
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(volid, storage+":") {
		return "", invalid(http.MethodDelete, path, "volume must be on %s, was %q", storage, volid)
	}
	data, err := c.call(ctx, http.MethodDelete, path, nil)
	if err != nil || data == nil {
		return "", err
	}
	return taskIn(http.MethodDelete, path, data)
}

// isoName is what the server takes as it is. In other names it replaces what it does not like, and
// the file would not be found again.
var isoName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,250}\.(iso|img)$`)

// Upload puts an ISO image on a storage. Its volume is STORAGE:iso/FILENAME, once the task has
// ended; one of that name is overwritten.
func (c *Client) Upload(ctx context.Context, node, storage, filename string, content []byte) (UPID, error) {
	path, err := onStorage(http.MethodPost, node, storage, "/upload")
	if err != nil {
		return "", err
	}
	if !isoName.MatchString(filename) {
		return "", invalid(http.MethodPost, path, "filename must be letters, digits, ., _ and -, and end in .iso or .img, was %q", filename)
	}
	if len(content) == 0 {
		return "", invalid(http.MethodPost, path, "content of %s must not be empty", filename)
	}
	return c.upload(ctx, path, [][2]string{{"content", "iso"}}, filename, bytes.NewReader(content), int64(len(content)))
}

// imageName is what the server takes as it is.
var imageName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,250}\.(qcow2|raw|vmdk)$`)

// UploadImage puts a disk's image on a storage with content import, if it arrives with this
// SHA-256. Its volume is STORAGE:import/FILENAME, once the task has ended. It is read as it is
// sent, and must not change.
func (c *Client) UploadImage(ctx context.Context, node, storage, filename, sum string, content io.ReaderAt, size int64) (UPID, error) {
	path, err := onStorage(http.MethodPost, node, storage, "/upload")
	if err != nil {
		return "", err
	}
	if !imageName.MatchString(filename) {
		return "", invalid(http.MethodPost, path, "filename must be letters, digits, ., _ and -, and end in .qcow2, .raw or .vmdk, was %q", filename)
	}
	if size <= 0 {
		return "", invalid(http.MethodPost, path, "content of %s must not be empty", filename)
	}
	fields := [][2]string{{"content", "import"}, {"checksum", sum}, {"checksum-algorithm", "sha256"}}
	return c.upload(ctx, path, fields, filename, content, size)
}

// upload sends a form. The server reads the fields up to the file, so the file is last. It is a
// body of another kind than go-proxmox sends; the upload there knows no context.
func (c *Client) upload(ctx context.Context, path string, fields [][2]string, filename string, content io.ReaderAt, size int64) (UPID, error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b) // to memory
	for _, f := range fields {
		_ = w.WriteField(f[0], f[1])
	}
	_, _ = w.CreateFormFile("filename", filename)
	head := b.Len()
	_ = w.Close()
	open := func() (io.ReadCloser, error) {
		all := b.Bytes()
		return io.NopCloser(io.MultiReader(bytes.NewReader(all[:head]), io.NewSectionReader(content, 0, size), bytes.NewReader(all[head:]))), nil
	}
	body, _ := open()
	var data json.RawMessage
	req, err := http.NewRequestWithContext(context.WithValue(ctx, answered{}, &data), http.MethodPost, anyEndpoint+apiRoot+path, body)
	if err != nil {
		return "", fmt.Errorf("POST %s: %w", path, err)
	}
	req.GetBody, req.ContentLength = open, int64(b.Len())+size
	req.Header.Set("Content-Type", w.FormDataContentType())
	res, err := c.wire.RoundTrip(req)
	if err != nil {
		return "", asError(http.MethodPost, path, err)
	}
	if err := res.Body.Close(); err != nil {
		return "", err
	}
	return taskIn(http.MethodPost, path, data)
}
