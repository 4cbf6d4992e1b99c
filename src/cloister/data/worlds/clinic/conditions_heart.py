"""Lexicon of the clinic world: heart, vessels and lungs."""

from __future__ import annotations

from typing import Final

from cloister.data.worlds.clinic.condition import Condition, condition

__all__ = ["HEART_AND_LUNGS"]

HEART_AND_LUNGS: Final[tuple[Condition, ...]] = (
    condition(
        "hypertension", 1, "cardiology", ages=(30, 80), heritable=True,
        names="essential hypertension; arterial hypertension; raised blood pressure; HTN",
        lay="high blood pressure; blood pressure trouble",
        symptoms="morning headache; light-headedness; nosebleeds; flushing; pounding in the ears",
        signs="no retinal haemorrhages; loud second heart sound; no ankle swelling",
        drugs="amlodipine 5 mg once daily; ramipril 5 mg once daily|teratogen; "
        "indapamide 2.5 mg each morning; losartan 50 mg once daily|teratogen",
        tests="home systolic average 136-172 mmHg; potassium 4.1-4.9 mmol/l",
        procedures="ambulatory blood pressure monitoring; electrocardiogram; renal ultrasound",
        advice="cut down on salt; keep a diary of home readings; walk half an hour on most days; "
        "bring the blood pressure cuff to the next visit",
        related="coronary heart disease; stroke; chronic kidney disease; heart failure; "
        "high cholesterol",
    ),
    condition(
        "high cholesterol", 6, "cardiology", ages=(32, 75), heritable=True,
        names="hypercholesterolaemia; dyslipidaemia; mixed hyperlipidaemia",
        lay="fat in the blood; raised blood fats",
        symptoms="aching thighs; yellow spots on the eyelids; tired legs; muscle cramps at night",
        signs="xanthelasma of both upper eyelids; corneal arcus; no tendon xanthomas",
        drugs="atorvastatin 20 mg at night|teratogen; rosuvastatin 10 mg once daily|teratogen; "
        "ezetimibe 10 mg once daily; simvastatin 40 mg at night|teratogen",
        tests="LDL cholesterol 3.6-6.4 mmol/l; triglycerides 1.9-4.8 mmol/l; ALT 22-58 U/l",
        procedures="fasting lipid profile; carotid ultrasound; cardiovascular risk assessment",
        advice="swap butter for olive oil; eat oily fish twice a week; report any muscle pain",
        related="coronary heart disease; hypertension; type 2 diabetes; obesity",
    ),
    condition(
        "coronary heart disease", 21, "cardiology", ages=(45, 85), heritable=True,
        names="ischaemic heart disease; stable angina; CHD; coronary artery disease",
        lay="heart trouble; narrowed heart arteries; angina pain",
        symptoms="chest tightness on exertion; pain spreading to the left arm; "
        "breathlessness on stairs; sweating with chest pain; tightness in the jaw",
        signs="normal heart sounds without murmur; sternotomy scar well healed; warm peripheries",
        drugs="bisoprolol 2.5 mg once daily|beta_blocker; clopidogrel 75 mg once "
        "daily|antiplatelet;"
        " isosorbide mononitrate 30 mg each morning|nitrate; aspirin 75 mg once daily|"
        "aspirin,antiplatelet,adult; nicorandil 10 mg twice daily|nitrate",
        tests="troponin 4-19 ng/l; resting pulse 58-84 per minute",
        procedures="coronary angiography; exercise stress test; coronary stenting; "
        "cardiac rehabilitation",
        advice="carry the nitrate spray at all times; stop and rest when the chest feels tight; "
        "call an ambulance if pain lasts over fifteen minutes",
        related="hypertension; high cholesterol; heart failure; peripheral arterial disease; "
        "type 2 diabetes",
        excludes="erectile dysfunction", avoid="triptan; nsaid",
    ),
    condition(
        "atrial fibrillation", 22, "cardiology", ages=(55, 90),
        names="paroxysmal atrial fibrillation; AF; permanent atrial fibrillation",
        lay="irregular heartbeat; fluttering heart",
        symptoms="palpitations; fluttering in the chest; dizziness on standing; "
        "tiredness after climbing stairs; skipped beats",
        signs="irregularly irregular pulse; variable first heart sound; no carotid bruit",
        drugs="apixaban 5 mg twice daily; warfarin according to INR|teratogen; "
        "edoxaban 60 mg once daily; digoxin 125 micrograms once daily",
        tests="ventricular rate 72-128 per minute; resting pulse 66-112 per minute",
        procedures="24-hour heart monitor; cardioversion; echocardiogram; catheter ablation",
        advice="never miss a dose; check the pulse every morning; "
        "carry the medicines card",
        related="heart failure; stroke; hypertension; hyperthyroidism",
        excludes="deep vein thrombosis", avoid="nsaid; aspirin; antiplatelet",
    ),
    condition(
        "heart failure", 29, "cardiology", ages=(58, 92),
        names="congestive heart failure; left ventricular dysfunction; cardiac failure; CCF",
        lay="weak heart; water on the lungs",
        symptoms="ankle swelling; breathlessness lying flat; waking at night gasping; "
        "rapid weight gain; needing three pillows to sleep",
        signs="pitting oedema to the mid-shin; fine crackles at both lung bases; raised jugular "
        "venous pressure; displaced apex beat",
        drugs="furosemide 40 mg each morning; carvedilol 6.25 mg twice daily|beta_blocker; "
        "spironolactone 25 mg once daily; dapagliflozin 10 mg once daily",
        tests="NT-proBNP 480-6200 ng/l; ejection fraction 48-22 %; sodium 139-130 mmol/l",
        procedures="echocardiogram; chest X-ray; heart failure nurse visits; pacemaker check",
        advice="weigh every morning and report a gain of two kilos; keep to a litre and a half of "
        "fluid; raise the legs in the afternoon",
        related="coronary heart disease; atrial fibrillation; hypertension; chronic kidney disease",
        avoid="nsaid",
    ),
    condition(
        "stroke", 39, "neurology", ages=(55, 92), heritable=True, graded=False,
        names="ischaemic stroke; cerebrovascular accident; CVA; cerebral infarct",
        lay="brain attack; blood clot in the brain",
        symptoms="slurred speech; weakness of one arm; drooping of the face; unsteady gait; "
        "word-finding difficulty",
        signs="pronator drift on the left; brisk reflexes on the right; mild facial asymmetry; "
        "hemianopia on confrontation",
        drugs="clopidogrel 75 mg once daily|antiplatelet; perindopril 4 mg once daily|teratogen; "
        "dipyridamole 200 mg twice daily|antiplatelet",
        tests="NIHSS score 1-9 points; carotid stenosis 20-75 %",
        procedures="CT scan of the head; MRI of the brain; speech therapy; carotid endarterectomy",
        advice="keep up the hand exercises; do not drive until cleared; call for help at the first "
        "sign of new weakness",
        related="hypertension; atrial fibrillation; dementia; epilepsy",
        avoid="triptan; nsaid",
    ),
    condition(
        "peripheral arterial disease", 79, "cardiology", ages=(55, 88),
        names="PAD; intermittent claudication; lower limb ischaemia",
        lay="poor circulation in the legs; furred-up leg arteries",
        symptoms="calf pain on walking; cold feet; slow healing of toe wounds; numb toes; "
        "foot pain at night relieved by hanging the leg down",
        signs="absent foot pulses on the right; hair loss over the shins; pale feet on elevation",
        drugs="clopidogrel 75 mg once daily|antiplatelet; naftidrofuryl 200 mg three times daily; "
        "cilostazol 100 mg twice daily|antiplatelet",
        tests="ankle-brachial index 0.88-0.42; walking distance 400-60 m",
        procedures="duplex scan of the leg arteries; angioplasty; supervised walking programme",
        advice="walk through the pain as far as possible; inspect the feet daily; never go "
        "barefoot",
        related="coronary heart disease; type 2 diabetes; stroke; high cholesterol",
        avoid="beta_blocker",
    ),
    condition(
        "varicose veins", 58, "cardiology", ages=(25, 70), heritable=True,
        names="chronic venous insufficiency; varicosities; venous reflux",
        lay="bulging leg veins; bad veins",
        symptoms="heavy legs; aching calves by evening; itching around the ankle; visible twisted "
        "veins; restless legs at night",
        signs="dilated great saphenous vein; brown staining above the ankle; small ankle flare",
        drugs="class two compression stockings; diosmin 500 mg twice daily; emollient cream at "
        "night",
        procedures="venous duplex scan; endovenous laser ablation; foam sclerotherapy",
        advice="raise the legs when sitting; wear the stockings from morning to night; avoid "
        "standing for long",
        related="deep vein thrombosis; cellulitis; pregnancy; obesity",
    ),
    condition(
        "deep vein thrombosis", 64, "cardiology", chronic=False, ages=(25, 88),
        names="DVT; venous thromboembolism; popliteal vein thrombosis",
        lay="blood clot in the leg; leg clot",
        symptoms="swollen calf; calf tenderness; warmth of one leg; tightness of the lower leg",
        signs="calf circumference three centimetres larger on the left; tender deep veins",
        drugs="rivaroxaban 20 mg with food; dalteparin injection once daily",
        tests="D-dimer 620-4200 ng/ml",
        procedures="compression ultrasound of the leg; thrombophilia screen",
        advice="keep moving on long journeys; seek help at once if breathless",
        related="varicose veins; pregnancy; lung cancer", excludes="atrial fibrillation",
        avoid="nsaid; antiplatelet",
    ),
    condition(
        "asthma", 7, "respiratory", ages=(3, 45), heritable=True,
        names="bronchial asthma; allergic asthma; reactive airways",
        lay="wheezy chest; wheezing trouble",
        symptoms="wheeze; cough at night; tight chest in cold air; breathlessness after sport; "
        "waking with cough",
        signs="expiratory wheeze over both lungs; good air entry; prolonged expiration",
        drugs="beclometasone inhaler 100 micrograms twice daily; salbutamol inhaler as needed; "
        "budesonide inhaler 200 micrograms twice daily; montelukast at night",
        tests="peak flow 88-52 % of best; exhaled nitric oxide 28-86 ppb",
        procedures="spirometry with reversibility; inhaler technique check; allergy skin testing",
        advice="rinse the mouth after each inhaler; keep the blue inhaler at hand; follow "
        "the written action plan",
        related="allergic rhinitis; eczema; COPD; sinusitis",
        avoid="beta_blocker; nsaid; aspirin",
    ),
    condition(
        "COPD", 20, "respiratory", ages=(48, 85),
        names="chronic obstructive pulmonary disease; chronic bronchitis; emphysema",
        lay="smoker's lung; worn-out lungs",
        symptoms="breathlessness on the flat; morning cough with phlegm; frequent chest colds; "
        "wheezing in damp weather; poor stamina",
        signs="barrel-shaped chest; quiet breath sounds; pursed-lip breathing; scattered rhonchi",
        drugs="tiotropium inhaler once daily; salbutamol inhaler as needed; umeclidinium and "
        "vilanterol inhaler once daily; carbocisteine 750 mg twice daily",
        tests="FEV1 76-34 % of predicted; oxygen saturation 96-89 %",
        procedures="spirometry; pulmonary rehabilitation; chest X-ray; oxygen assessment",
        advice="stop smoking; have the flu jab every autumn; start the rescue pack when phlegm "
        "turns green",
        related="asthma; pneumonia; lung cancer; heart failure",
        avoid="beta_blocker",
    ),
    condition(
        "pneumonia", 32, "respiratory", chronic=False, ages=(3, 95),
        names="community-acquired pneumonia; lobar pneumonia; lower respiratory tract infection",
        lay="lung infection; chest infection",
        symptoms="cough with rusty phlegm; fever with shivering; sharp pain on breathing in; "
        "fast breathing; loss of appetite",
        signs="bronchial breathing at the right base; dull percussion note at the left base; "
        "coarse crackles",
        drugs="amoxicillin 500 mg three times daily|penicillin,adult; "
        "doxycycline 100 mg once daily|tetracycline,adult; clarithromycin 500 mg twice daily|"
        "adult; azithromycin suspension once daily for three days|child",
        tests="CRP 48-260 mg/l; temperature 37.9-39.6 degrees; oxygen saturation 96-90 %",
        procedures="chest X-ray; sputum culture; hospital assessment",
        advice="finish the antibiotic course; drink plenty; come back if breathing gets harder",
        related="COPD; influenza; common cold",
    ),
    condition(
        "influenza", 31, "infections", chronic=False, ages=(4, 95),
        names="influenza A; seasonal flu; flu-like illness",
        lay="the flu; real flu",
        symptoms="sudden high fever; aching limbs; dry cough; headache behind the eyes; exhaustion",
        signs="flushed face; clear chest; injected conjunctivae",
        drugs="oseltamivir 75 mg twice daily|adult; paracetamol 1 g up to four times daily|adult; "
        "paracetamol suspension by weight|child",
        tests="temperature 38.2-40.1 degrees",
        procedures="throat swab; rapid antigen test",
        advice="stay in bed and drink plenty; keep away from grandparents; have the vaccine next "
        "autumn",
        related="common cold; pneumonia; sinusitis",
    ),
    condition(
        "sleep apnoea", 45, "respiratory", ages=(35, 75),
        names="obstructive sleep apnoea; OSA; sleep-disordered breathing",
        lay="stopping breathing at night; heavy snoring",
        symptoms="loud snoring; daytime sleepiness; waking unrefreshed; dozing off at the wheel; "
        "choking sensation at night",
        signs="crowded oropharynx; large neck circumference; small jaw",
        drugs="CPAP mask every night; mandibular splint at night; positional therapy belt",
        tests="apnoea index 12-58 events per hour; Epworth score 10-20 points",
        procedures="home sleep study; overnight oximetry; CPAP titration",
        advice="do not drive when sleepy; avoid alcohol in the evening; sleep on the side",
        related="obesity; hypertension; insomnia; atrial fibrillation",
    ),
    condition(
        "lung cancer", 77, "oncology", ages=(52, 86), graded=False,
        names="bronchial carcinoma; non-small cell lung cancer; lung adenocarcinoma",
        lay="a growth in the lung; tumour of the lung",
        symptoms="coughing up blood; stubborn cough; unexplained weight loss; hoarse voice; "
        "ache in the shoulder blade",
        signs="finger clubbing; supraclavicular lymph node; reduced breath sounds at the apex",
        drugs="osimertinib 80 mg once daily|teratogen; pembrolizumab infusion every three weeks|"
        "teratogen; carboplatin every three weeks|teratogen",
        tests="tumour size 14-58 mm; haemoglobin 136-101 g/l",
        procedures="CT scan of the chest; bronchoscopy; lobectomy; radiotherapy",
        advice="ring the cancer nurse about any fever; take small meals often; stop smoking",
        related="COPD; pneumonia; deep vein thrombosis",
    ),
)  # fmt: skip
