package main

import (
	"bytes"
	"errors"

	curve "github.com/consensys/gnark-crypto/ecc/bn254"
	"github.com/consensys/gnark-crypto/ecc/bn254/fp"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
	groth16 "github.com/consensys/gnark/backend/groth16/bn254"
)

func verifyBN254(c command) error {
	var coordinateError error
	coordinate := func(text string) (value fp.Element) {
		if _, err := value.SetString(text); err != nil {
			coordinateError = err
		}
		return value
	}
	g1 := func(p []string) curve.G1Affine {
		return curve.G1Affine{X: coordinate(p[0]), Y: coordinate(p[1])}
	}
	g2 := func(p [][]string) (point curve.G2Affine) {
		point.X.A0, point.X.A1 = coordinate(p[0][0]), coordinate(p[0][1])
		point.Y.A0, point.Y.A1 = coordinate(p[1][0]), coordinate(p[1][1])
		return point
	}

	var vk groth16.VerifyingKey
	vk.G1.Alpha = g1(c.key.Alpha)
	vk.G2.Beta, vk.G2.Gamma, vk.G2.Delta = g2(c.key.Beta), g2(c.key.Gamma), g2(c.key.Delta)
	for _, point := range c.key.IC {
		vk.G1.K = append(vk.G1.K, g1(point))
	}
	proof := groth16.Proof{Ar: g1(c.proof.A), Bs: g2(c.proof.B), Krs: g1(c.proof.C)}
	public := make(fr.Vector, len(c.public))
	for i, text := range c.public {
		if _, err := public[i].SetString(text); err != nil {
			return err
		}
	}
	if coordinateError != nil {
		return coordinateError
	}
	for _, point := range vk.G1.K {
		if !point.IsInSubGroup() {
			return errors.New("a point of the key outside its group")
		}
	}
	a, b, krs := proof.Ar.Bytes(), proof.Bs.Bytes(), proof.Krs.Bytes()
	if !bytes.Equal(bytes.Join([][]byte{a[:], b[:], krs[:]}, nil), c.binary) {
		return errors.New("proof.bin is another encoding")
	}
	if err := vk.Precompute(); err != nil {
		return err
	}
	return groth16.Verify(&proof, &vk, public)
}
