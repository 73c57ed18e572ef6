// A peer for the interoperability tests: gnark's own Groth16 verifier (Apache-2.0) on the files that
// attest.proof.snarkjs exports. Never part of the product.
//
// usage: gnark FOLDER...   each with verification_key.json, public.json, proof.json and proof.bin
//
// Prints one line a folder: "ok", or "refused: reason". proof.bin must be gnark's own compressed encoding of the
// points of proof.json: so the binary encodings are compared too.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/consensys/gnark/logger"
)

type key struct {
	Curve string     `json:"curve"`
	Alpha []string   `json:"vk_alpha_1"`
	Beta  [][]string `json:"vk_beta_2"`
	Gamma [][]string `json:"vk_gamma_2"`
	Delta [][]string `json:"vk_delta_2"`
	IC    [][]string `json:"IC"`
}

type proof struct {
	A []string   `json:"pi_a"`
	B [][]string `json:"pi_b"`
	C []string   `json:"pi_c"`
}

type command struct {
	key    key
	proof  proof
	public []string
	binary []byte
}

func read(folder string) (c command, err error) {
	for name, into := range map[string]any{
		"verification_key.json": &c.key, "proof.json": &c.proof, "public.json": &c.public,
	} {
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return c, err
		}
		if err := json.Unmarshal(data, into); err != nil {
			return c, fmt.Errorf("%s: %w", name, err)
		}
	}
	c.binary, err = os.ReadFile(filepath.Join(folder, "proof.bin"))
	return c, err
}

func verify(folder string) error {
	c, err := read(folder)
	if err != nil {
		return err
	}
	switch c.key.Curve {
	case "bn128":
		return verifyBN254(c)
	case "bls12381":
		return verifyBLS12381(c)
	}
	return fmt.Errorf("unknown curve %q", c.key.Curve)
}

func main() {
	logger.Disable() // it writes to standard output
	for _, folder := range os.Args[1:] {
		if err := verify(folder); err != nil {
			fmt.Println("refused:", err)
		} else {
			fmt.Println("ok")
		}
	}
}
